//! Moments at which triggers are due.

#![expect(clippy::unwrap_used, reason = "a test may stop at the first surprise")]

use agent_triggers::{TriggerFile, TriggerRecord, due};
use agent_types::Timestamp;

fn time(text: &str) -> Timestamp {
    Timestamp::parse(&format!("2026-03-{text}.000Z")).unwrap()
}

/// The firings of a trigger that was last seen at a moment: `moment` or `moment+missed`, then the next moment.
fn firings(trigger: &str, seen: &str, now: &str) -> String {
    let file = TriggerFile::from_json(&format!("{{\"triggers\": [{{\"id\": \"t\", {trigger}}}]}}")).unwrap();
    let due = due(&file.triggers[0], &TriggerRecord::seen(time(seen)), time(now));
    let short = |at: Timestamp| at.to_string()[8..19].to_owned();
    let mut shown: Vec<String> = due
        .ticks
        .iter()
        .map(|tick| match tick.missed {
            0 => short(tick.at),
            missed => format!("{}+{missed}", short(tick.at)),
        })
        .collect();
    shown.push(format!("next {}", due.next.map_or_else(|| "never".to_owned(), short)));
    shown.join(" ")
}

#[test]
fn times_are_due_once_and_missed_ones_by_their_policy() {
    for (trigger, seen, now, expected) in [
        (r#""cron": "0 8 * * *""#, "02T07:00:00", "02T07:59:59", "next 02T08:00:00"),
        (r#""cron": "0 8 * * *""#, "02T07:00:00", "02T08:00:00", "02T08:00:00 next 03T08:00:00"),
        (r#""cron": "0 8 * * *""#, "02T08:00:00", "02T08:00:30", "next 03T08:00:00"),
        // The clocks of that zone go forward.
        (
            r#""cron": "0 8 * * *", "time_zone": "Europe/Oslo""#,
            "28T10:00:00",
            "29T06:00:00",
            "29T06:00:00 next 30T06:00:00",
        ),
        // Three days without a server.
        (r#""cron": "0 8 * * *""#, "02T09:00:00", "05T12:00:00", "05T08:00:00+3 next 06T08:00:00"),
        (r#""cron": "0 8 * * *", "missed": "skip""#, "02T09:00:00", "05T12:00:00", "next 06T08:00:00"),
        (
            r#""cron": "0 8 * * *", "missed": "all""#,
            "02T09:00:00",
            "05T12:00:00",
            "03T08:00:00+1 04T08:00:00+1 05T08:00:00+1 next 06T08:00:00",
        ),
        (
            r#""cron": "0 8 * * *", "missed": "all", "max_missed": 1"#,
            "02T09:00:00",
            "05T08:00:10",
            "04T08:00:00+1 05T08:00:00 next 06T08:00:00",
        ),
        (
            r#""cron": "0 8 * * *", "missed": "skip""#,
            "02T09:00:00",
            "05T08:00:10",
            "05T08:00:00 next 06T08:00:00",
        ),
        (r#""every_ms": 60000"#, "02T07:00:00", "02T07:00:59", "next 02T07:01:00"),
        (r#""every_ms": 60000"#, "02T07:00:00", "02T07:01:05", "02T07:01:00 next 02T07:02:00"),
        (r#""every_ms": 600000"#, "02T07:00:00", "02T08:05:00", "02T08:00:00+6 next 02T08:10:00"),
        (
            r#""every_ms": 600000, "missed": "all", "max_missed": 2"#,
            "02T07:00:00",
            "02T08:05:00",
            "02T07:50:00+1 02T08:00:00+1 next 02T08:10:00",
        ),
        // More than are counted: the newest fire.
        (
            r#""cron": "* * * * * *", "missed": "all", "max_missed": 2"#,
            "02T07:00:00",
            "03T07:00:00",
            "03T06:59:58+1 03T06:59:59+1 03T07:00:00 next 03T07:00:01",
        ),
        (r#""cron": "* * * * * *""#, "02T07:00:00", "03T07:00:00", "03T07:00:00+9999 next 03T07:00:01"),
        (r#""cron": "0 0 30 2 *""#, "02T07:00:00", "03T07:00:00", "next never"),
        (r#""every_ms": 60000, "enabled": false"#, "02T07:00:00", "03T07:00:00", "next never"),
        (r#""files": ["inbox/*"]"#, "02T07:00:00", "03T07:00:00", "next never"),
    ] {
        assert_eq!(firings(trigger, seen, now), expected, "{trigger} {seen} {now}");
    }
}

#[test]
fn what_is_wrong_with_a_file_is_reported_with_its_place() {
    for (trigger, line, column, message) in [
        ("\"cron\":\n\"0 25 * * *\"", 3, 13, "`0 25 * * *` is not a cron expression: "),
        (
            "\"cron\": \"0 8 * * *\",\n\"time_zone\": \"Asia/Shangai\"",
            3,
            28,
            "unknown time zone `Asia/Shangai`; did you mean `Asia/Shanghai`?",
        ),
        ("\"corn\": \"\"", 2, 6, "unknown field `corn`, expected one of "),
        ("\"every_ms\": 10", 2, 16, "`every_ms` is at least 1000"),
        ("\"every_ms\": 1000, \"max_missed\": 1001", 2, 38, "`max_missed` is at most 1000"),
        ("\"files\": [\"../x\"]", 2, 18, "`../x` leaves the project, or is not a path with `/`"),
        (
            "\"webhook\": {\"secret\": \"plain\"}",
            2,
            30,
            "a secret is not written out; `{$secret.NAME}` takes it from the environment",
        ),
        ("\"message\": \"x\"", 2, 16, "`t` needs one of `cron`, `every_ms`, `files` and `webhook`"),
        (
            "\"every_ms\": 1000, \"files\": [\"a\"]",
            2,
            34,
            "`t` needs one of `cron`, `every_ms`, `files` and `webhook`",
        ),
    ] {
        let text = format!("{{\"triggers\": [{{\"id\": \"t\",\n{trigger}}}]}}");
        let error = TriggerFile::from_json(&text).unwrap_err();
        assert!(error.message.starts_with(message), "{trigger}: {error}");
        assert_eq!((error.line, error.column), (line, column), "{trigger}: {error}");
    }
    let error = TriggerFile::from_json(r#"{"triggers": [{"id": "t", "corn": ""}]}"#).unwrap_err();
    assert_eq!(error.suggest.as_deref(), Some("cron"));
}

#[test]
fn files_are_meant_by_pattern() {
    let file = TriggerFile::from_json(
        r#"{"triggers": [{"id": "t", "files": ["inbox/*.txt", "data/**", "notes.md"]}]}"#,
    );
    let kind = &file.unwrap().triggers[0].kind;
    for (path, expected) in [
        ("inbox/a.txt", true),
        ("inbox/a.md", false),
        ("inbox/x/a.txt", false),
        ("data/x/y.bin", true),
        ("notes.md", true),
        ("data/.hidden", false),
    ] {
        assert_eq!(kind.is_of_file(path), expected, "{path}");
    }
    assert_eq!(kind.folders(), ["inbox", "data", ""]);
    assert!(!kind.is_of_any_folder());
    for (pattern, expected) in
        [("**/*.md", true), ("**", true), ("*/a.md", true), ("*.md", false), ("docs/**", false)]
    {
        let text = format!(r#"{{"triggers": [{{"id": "t", "files": ["{pattern}"]}}]}}"#);
        let file = TriggerFile::from_json(&text).unwrap();
        assert_eq!(file.triggers[0].kind.is_of_any_folder(), expected, "{pattern}");
    }
}

#[test]
fn a_trigger_whose_times_change_has_missed_nothing() {
    let trigger = |text: &str| {
        let file = TriggerFile::from_json(&format!("{{\"triggers\": [{{\"id\": \"t\", {text}}}]}}"));
        file.unwrap().triggers.remove(0)
    };
    let record = TriggerRecord::seen(time("02T07:00:00"));
    let steps = [
        // A record from before times were kept.
        (r#""cron": "0 8 * * *""#, "02T07:30:00", 0),
        (r#""cron": "0 8 * * *""#, "03T09:00:00", 1),
        (r#""cron": "0 7 * * *""#, "05T09:00:00", 0),
        (r#""cron": "0 7 * * *", "time_zone": "Europe/Oslo""#, "07T09:00:00", 0),
        (r#""cron": "0 7 * * *", "time_zone": "Europe/Oslo", "enabled": false"#, "08T09:00:00", 0),
        (r#""cron": "0 7 * * *", "time_zone": "Europe/Oslo""#, "10T09:00:00", 0),
        (r#""cron": "0 7 * * *", "time_zone": "Europe/Oslo""#, "11T09:00:00", 1),
        (r#""every_ms": 60000"#, "12T09:00:00", 0),
        (r#""every_ms": 60000"#, "12T09:01:00", 1),
    ];
    steps.iter().fold(record, |record, (text, now, expected)| {
        let (record, _, due) = record.claimed(&trigger(text), time(now));
        assert_eq!(due.ticks.len(), *expected, "{text} {now}");
        record
    });
}

#[test]
fn a_webhook_is_closed_by_a_secret_a_signature_or_both() {
    let read = |webhook: &str| {
        let text = format!("{{\"triggers\": [{{\"id\": \"t\", \"webhook\": {webhook}}}]}}");
        TriggerFile::from_json(&text).map_err(|error| error.message)
    };
    let signature = r#"{"header": "X-Sig", "secret": "{$secret.K}"}"#;
    for (webhook, secrets) in [
        (r#"{"secret": "{$secret.S}"}"#.to_owned(), "S"),
        (format!(r#"{{"signature": {signature}}}"#), "K"),
        (format!(r#"{{"secret": "{{$secret.S}}", "signature": {signature}}}"#), "S K"),
    ] {
        let file = read(&webhook).unwrap();
        let agent_triggers::TriggerKind::Webhook(webhook) = &file.triggers[0].kind else { panic!() };
        assert_eq!(webhook.secrets().collect::<Vec<_>>().join(" "), secrets);
    }
    let with =
        |more: &str| format!(r#"{{"signature": {{"header": "X-Sig", "secret": "{{$secret.K}}", {more}}}}}"#);
    for (webhook, expected) in [
        ("{}".to_owned(), "a webhook needs a `secret` or a `signature`"),
        (
            r#"{"signature": {"header": "X-Sig", "secret": "plain"}}"#.to_owned(),
            "a secret is not written out",
        ),
        (
            r#"{"signature": {"header": "a b", "secret": "{$secret.K}"}}"#.to_owned(),
            "`a b` cannot be the name of a header",
        ),
        (with(r#""algorithm": "md5""#), "unknown variant `md5`, expected `sha256`"),
        (with(r#""payload": "{id}""#), "`payload` must hold `{body}` once"),
        (
            with(r#""payload": "{timestamp}.{body}""#),
            "`payload` must hold `{timestamp}` where `timestamp` is set",
        ),
        (
            with(r#""payload": "{body}", "timestamp": {"header": "T"}"#),
            "`payload` must hold `{timestamp}` where",
        ),
    ] {
        let message = read(&webhook).unwrap_err();
        assert!(message.starts_with(expected), "{webhook}: {message}");
    }
}
