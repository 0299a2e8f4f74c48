//! Requests to models that the log of a run keeps.

use agent_runtime::requests::{RecordedRequest, RequestPlace, RequestReader};
use agent_types::RunId;
use run_store::Store;

use crate::error::RunsError;

/// Reads the request of a turn as the model was sent it: the last one, where the turn had several.
///
/// # Errors
/// The run does not exist, its log does not have such a request, or the store cannot be read.
pub fn recorded_request(
    store: &Store,
    run: &RunId,
    place: RequestPlace,
) -> Result<RecordedRequest, RunsError> {
    store.known(run)?;
    let request = place.to_string();
    let mut reader = RequestReader::new(place);
    for group in store.groups(run) {
        let mut group = group?;
        group.retain(|kept| reader.needs(kept));
        store.put_values_back(&mut group)?;
        group.iter().for_each(|kept| reader.add(kept));
    }
    reader.finish().map_err(|places| RunsError::UnknownRequest {
        run: run.to_string(),
        request,
        kept: places.iter().map(ToString::to_string).collect(),
    })
}
