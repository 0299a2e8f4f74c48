//! Facts about each kind of event that its name does not carry.

/// Facts about one kind of event: a row of [`EventBody::TABLE`](crate::EventBody::TABLE).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct EventInfo {
    /// Dotted name on the wire.
    pub name: &'static str,
    /// Meaning, in sentences of Markdown.
    pub about: &'static str,
    /// Label in Chinese; the one in English is the beginning of `about`.
    pub zh: &'static str,
    /// Part of the run that the event belongs to.
    pub subject: EventSubject,
    /// Effect of the event on its subject.
    pub role: EventRole,
}

/// Part of a run that an event belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum EventSubject {
    /// The run as a whole.
    Run,
    /// A node, which `path` names.
    Node,
    /// A loop zone, which `path` names.
    Loop,
    /// A pass of a loop zone: its `iteration`.
    Pass,
    /// A pass of the agent loop: its `turn`.
    Turn,
    /// A request to the model within a turn.
    Model,
    /// A tool call, which `call` names.
    Call,
    /// The session around an agent: its flows and system actions.
    Session,
    /// The project that the run is a part of.
    Project,
}

/// Effect of an event on its subject.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum EventRole {
    /// Work of the subject starts.
    Opens,
    /// Work of the subject ends, or never starts.
    Closes,
    /// A piece of a text that a later event has as a whole.
    Piece,
    /// A fact while the subject is open.
    Fact,
}

impl EventInfo {
    /// Subject whose work the event starts.
    #[must_use]
    pub fn opens(&self) -> Option<EventSubject> {
        (self.role == EventRole::Opens).then_some(self.subject)
    }

    /// Subject whose work the event ends.
    #[must_use]
    pub fn closes(&self) -> Option<EventSubject> {
        (self.role == EventRole::Closes).then_some(self.subject)
    }

    /// Label in English: the first clause of the meaning.
    #[must_use]
    pub fn label(&self) -> &'static str {
        self.about.split([';', '.', ',']).next().unwrap_or(self.about)
    }
}

/// Writes [`EventBody`](crate::EventBody) and its table from rows.
macro_rules! events {
    ($(
        $(#[doc = $doc:literal])+
        #[event($name:literal, $subject:ident, $role:ident, zh = $zh:literal)]
        $variant:ident { $($data:tt)* },
    )+) => {
        /// Kind of an event and its data. The wire names are those of the variants, dotted.
        #[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
        #[serde(tag = "type", content = "data")]
        #[non_exhaustive]
        #[expect(missing_docs, reason = "the row of an event says what its fields mean")]
        pub enum EventBody {
            $($(#[doc = $doc])+ #[serde(rename = $name)] $variant { $($data)* },)+
        }

        impl EventBody {
            /// Every kind of event.
            pub const TABLE: &'static [EventInfo] = &[$(EventInfo {
                name: $name,
                about: concat!($($doc),+).trim_ascii(),
                zh: $zh,
                subject: EventSubject::$subject,
                role: EventRole::$role,
            }),+];

            /// Row of the table for this event.
            #[must_use]
            pub const fn info(&self) -> &'static EventInfo {
                enum Row { $($variant),+ }
                let row = match self { $(Self::$variant { .. } => Row::$variant),+ };
                &Self::TABLE[row as usize]
            }

            /// The dotted name on the wire.
            #[must_use]
            pub const fn name(&self) -> &'static str {
                self.info().name
            }
        }
    };
}
pub(crate) use events;
