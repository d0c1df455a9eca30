use std::io::Write;

use bson::{Bson, Document, RawBsonRef, RawDocument, RawDocumentBuf};
use odm_engine::Find;

use super::{open_collection, print_documents};
use crate::arguments::{ExportArguments, ExportFormat};
use crate::extended_json::{RelaxedValue, has_text};
use crate::failure::{Failure, Result};
use crate::output::Output;
use crate::place::Place;
use crate::server::Server;

pub(super) fn run(arguments: &ExportArguments, output: &mut Output) -> Result<()> {
    let is_csv = arguments.format == ExportFormat::Csv;
    if is_csv && arguments.fields.is_empty() {
        let message =
            "CSV needs the names of the columns; add --fields, such as --fields _id,address.city";
        return Err(Failure::Usage(message.into()));
    }
    let projection = match is_csv {
        true => None,
        false => projection(&arguments.fields)?,
    };
    let collection = &arguments.collection;
    match &arguments.from {
        Place::File(file) => {
            let find = Find {
                projection,
                ..Find::default()
            };
            let database = open_collection(file, collection)?;
            export(database.find(collection, &find)?, arguments, output)
        }
        Place::Server(url) => {
            let server = Server::connect(url)?;
            server.definition(collection)?;
            export(server.documents(collection, projection)?, arguments, output)
        }
    }
}

fn export<E>(
    documents: impl Iterator<Item = Result<RawDocumentBuf, E>>,
    arguments: &ExportArguments,
    output: &mut Output,
) -> Result<()>
where
    Failure: From<E>,
{
    match arguments.format {
        ExportFormat::Jsonl => print_documents(documents, output),
        ExportFormat::Csv => write_csv(documents, &arguments.fields, output.writer()),
    }
}

/// Returns the projection to the fields; `None` without fields.
fn projection(fields: &[String]) -> Result<Option<RawDocumentBuf>> {
    if fields.is_empty() {
        return Ok(None);
    }
    let mut projection = Document::new();
    if !fields.iter().any(|field| field == "_id") {
        projection.insert("_id", 0);
    }
    projection.extend(fields.iter().map(|field| (field.clone(), Bson::Int32(1))));
    let projection = RawDocumentBuf::try_from(&projection);
    let projection =
        projection.map_err(|error| Failure::Usage(format!("the fields are not valid: {error}")))?;
    Ok(Some(projection))
}

fn write_csv<E>(
    documents: impl Iterator<Item = Result<RawDocumentBuf, E>>,
    fields: &[String],
    writer: &mut impl Write,
) -> Result<()>
where
    Failure: From<E>,
{
    let mut writer = csv::Writer::from_writer(writer);
    writer.write_record(fields).map_err(output_failure)?;
    for document in documents {
        let document = document?;
        let cells = fields.iter().map(|field| cell(&document, field));
        let cells = cells.collect::<Result<Vec<_>>>()?;
        writer.write_record(cells).map_err(output_failure)?;
    }
    Ok(writer.flush()?)
}

fn output_failure(error: csv::Error) -> Failure {
    let message = format!("cannot write the output: {error}");
    match error.into_kind() {
        csv::ErrorKind::Io(error) => error.into(),
        _ => Failure::Problem(message),
    }
}

/// Returns the text of the value at a dotted path. A missing value and null are empty. A date after the year 9999 is a number of
/// milliseconds.
fn cell(document: &RawDocument, path: &str) -> Result<String> {
    let Some(value) = value_at(document, path) else {
        return Ok(String::new());
    };
    Ok(match value {
        RawBsonRef::Null | RawBsonRef::Undefined => String::new(),
        RawBsonRef::String(text) => text.to_owned(),
        RawBsonRef::Boolean(value) => value.to_string(),
        RawBsonRef::Int32(number) => number.to_string(),
        RawBsonRef::Int64(number) => number.to_string(),
        RawBsonRef::Double(number) => number.to_string(),
        RawBsonRef::Decimal128(number) => number.to_string(),
        RawBsonRef::ObjectId(id) => id.to_hex(),
        RawBsonRef::DateTime(date) => match date.try_to_rfc3339_string() {
            Ok(text) if has_text(date) => text,
            _ => date.timestamp_millis().to_string(),
        },
        value => serde_json::to_string(&RelaxedValue(value))
            .map_err(|error| Failure::problem(format!("{path} cannot be read: {error}")))?,
    })
}

/// Returns the value at a dotted path. A number is the position of an element of an array.
fn value_at<'a>(document: &'a RawDocument, path: &str) -> Option<RawBsonRef<'a>> {
    let mut parts = path.split('.');
    let mut value = document.get(parts.next()?).ok()??;
    for part in parts {
        value = match value {
            RawBsonRef::Document(document) => document.get(part).ok()??,
            RawBsonRef::Array(array) => array.get(part.parse().ok()?).ok()??,
            _ => return None,
        };
    }
    Some(value)
}
