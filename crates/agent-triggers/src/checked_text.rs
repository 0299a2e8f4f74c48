//! Texts that are checked where they are read.

/// Reads a text that must pass a check, so that its fault has the place of the text.
macro_rules! checked_text {
    ($(#[$about:meta])* $name:ident($inner:ty), $check:expr) => {
        $(#[$about])*
        #[derive(Debug, schemars::JsonSchema)]
        #[schemars(transparent)]
        pub(crate) struct $name(pub(crate) $inner);

        impl<'de> serde::Deserialize<'de> for $name {
            fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                let check: fn($inner) -> Result<$inner, String> = $check;
                check(<$inner as serde::Deserialize>::deserialize(deserializer)?).map(Self).map_err(serde::de::Error::custom)
            }
        }
    };
}

pub(crate) use checked_text;
