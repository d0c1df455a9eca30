use std::sync::Arc;

use bson::RawDocumentBuf;

use super::matches::Matches;
use super::{Reading, variables};
use crate::catalog::Catalog;
use crate::cursor::Cursor;
use crate::error::Result;
use crate::pipeline::{Documents, Pipeline, Source};
use crate::plan;
use crate::store::View;

/// An aggregation: documents that flow through a pipeline of stages.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Aggregate {
    /// The stages in order, such as `{ $match: { … } }`; none gives all documents.
    pub pipeline: Vec<RawDocumentBuf>,
    /// The values of the variables that expressions read as `$$name`.
    pub variables: RawDocumentBuf,
}

pub(crate) fn run(reading: Reading<'_>, name: &str, aggregate: &Aggregate) -> Result<Cursor> {
    let environment = variables::environment(&aggregate.variables)?;
    let stages = aggregate.pipeline.iter().map(|stage| &**stage);
    let pipeline = Pipeline::parse(stages, &environment)?;
    let state = State {
        view: reading.view.clone(),
        catalog: reading.catalog.clone(),
    };
    let documents = state.run(name, pipeline)?;
    Ok(Cursor::new(documents))
}

/// A state of the database that outlives the call, for stages that read on while their documents are taken.
#[derive(Clone)]
struct State {
    view: View,
    catalog: Catalog,
}

impl Source for State {
    fn run(&self, collection: &str, mut pipeline: Pipeline) -> Result<Documents> {
        let filter = Arc::new(pipeline.split_filters());
        let documents: Documents = match self.catalog.get(collection) {
            None => Box::new(std::iter::empty()),
            Some(collection) => {
                let plan = plan::choose(&self.view, collection, &filter, None)?;
                let matches = Matches::new(&self.view, collection, plan, filter);
                Box::new(matches.map(|found| Ok(found?.document()?.to_owned())))
            }
        };
        let source: Arc<dyn Source> = Arc::new(self.clone());
        pipeline.run(documents, &source)
    }
}
