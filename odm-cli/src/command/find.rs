use odm_engine::Find;

use super::{open_collection, print_documents};
use crate::arguments::FindArguments;
use crate::extended_json::parse_document;
use crate::failure::Result;
use crate::output::Output;

pub(super) fn run(arguments: &FindArguments, output: &mut Output) -> Result<()> {
    let parse = |argument, text: &Option<String>| {
        let text = text.as_deref();
        text.map(|text| parse_document(argument, text)).transpose()
    };
    let find = Find {
        filter: parse("filter", &arguments.filter)?.unwrap_or_default(),
        sort: parse("sort", &arguments.sort)?,
        projection: parse("projection", &arguments.project)?,
        limit: arguments.limit,
        ..Find::default()
    };
    let database = open_collection(&arguments.file, &arguments.collection)?;
    print_documents(database.find(&arguments.collection, &find)?, output)
}
