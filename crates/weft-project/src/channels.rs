//! Channels of the project's sessions.

use std::sync::Arc;

use http_caller::EnvSecrets;
use session_channels::{ChannelError, WebhookChannel};

use crate::project::Project;

impl Project {
    /// The channel of a name; `None` where the settings have none.
    ///
    /// # Errors
    /// Its secret is not set, or its address is invalid.
    pub fn channel(&self, name: &str) -> Result<Option<WebhookChannel>, ChannelError> {
        let Some(settings) = self.settings().channels.get(name) else { return Ok(None) };
        WebhookChannel::new(settings, &EnvSecrets, self.caller().clone(), Arc::clone(self.clock())).map(Some)
    }
}
