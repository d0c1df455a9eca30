//! The arguments of a command.

use std::collections::HashSet;

use bson::{RawArray, RawBson, RawBsonRef, RawDocument, RawDocumentBuf};

use odm_engine::{Collation, element_type_name};

use crate::error::{CommandError, Result, code};
use crate::message::{DocumentSequence, Message};

/// The arguments of one command. A command takes each argument that it knows, and [`finish`](Arguments::finish) refuses the
/// remaining arguments.
#[derive(Debug)]
pub(crate) struct Arguments {
    command: String,
    fields: Vec<Field>,
    sequences: Vec<DocumentSequence>,
}

#[derive(Debug)]
struct Field {
    name: String,
    value: RawBson,
}

impl Arguments {
    /// Reads the body and the sequences of a message. The name of the first field is the command.
    ///
    /// # Errors
    /// The body is empty or malformed, or has a field twice.
    pub(crate) fn from_message(message: Message) -> Result<Arguments> {
        let arguments = Arguments::from_document(&message.body)?;
        let mut names = message.sequences.iter().map(|sequence| &sequence.name);
        if let Some(name) = names.find(|name| arguments.contains(name)) {
            let message = format!("the argument `{name}` is in the body and in a sequence");
            return Err(CommandError::new(code::FAILED_TO_PARSE, message));
        }
        Ok(Arguments {
            sequences: message.sequences,
            ..arguments
        })
    }

    /// Reads a command or a nested document with options.
    ///
    /// # Errors
    /// The document is empty or malformed, or has a field twice.
    pub(crate) fn from_document(document: &RawDocument) -> Result<Arguments> {
        let mut fields: Vec<Field> = Vec::new();
        let mut names = HashSet::new();
        for element in document {
            let (name, value) = element?;
            let name = name.as_str();
            if !names.insert(name) {
                let message = format!("BSON field '{name}' is a duplicate field");
                return Err(CommandError::new(40413, message));
            }
            fields.push(Field {
                name: name.to_owned(),
                value: value.into(),
            });
        }
        let first = fields.first().map(|field| field.name.clone());
        Ok(Arguments {
            command: first.unwrap_or_default(),
            fields,
            sequences: Vec::new(),
        })
    }

    /// Reads the options of a nested document. Errors name the document.
    pub(crate) fn nested(name: &str, document: &RawDocument) -> Result<Arguments> {
        Ok(Arguments {
            command: name.to_owned(),
            ..Arguments::from_document(document)?
        })
    }

    /// The name of the command, as the client wrote it.
    pub(crate) fn command(&self) -> &str {
        &self.command
    }

    /// Replaces the name of the command by the canonical name.
    pub(crate) fn set_command(&mut self, name: &str) {
        if let Some(field) = self.fields.first_mut() {
            name.clone_into(&mut field.name);
        }
        name.clone_into(&mut self.command);
    }

    pub(crate) fn contains(&self, name: &str) -> bool {
        self.fields.iter().any(|field| field.name == name)
    }

    /// Takes an argument. `null` is as no argument.
    pub(crate) fn value(&mut self, name: &str) -> Option<RawBson> {
        let value = self.value_or_null(name)?;
        (!matches!(value, RawBson::Null | RawBson::Undefined)).then_some(value)
    }

    /// Takes an argument that can be `null`.
    pub(crate) fn value_or_null(&mut self, name: &str) -> Option<RawBson> {
        let position = self.fields.iter().position(|field| field.name == name)?;
        Some(self.fields.remove(position).value)
    }

    /// Takes an argument that the command has no use for, and that changes no result.
    pub(crate) fn accept(&mut self, names: &[&str]) {
        self.fields.retain(|field| !names.contains(&&*field.name));
    }

    /// Takes arguments that a MongoDB server has and this server lacks, and checks that they are absent or `null`.
    ///
    /// # Errors
    /// One of the arguments is present and not `null`.
    pub(crate) fn refuse(&mut self, names: &[&str]) -> Result<()> {
        match names.iter().find(|name| self.value(name).is_some()) {
            Some(name) => Err(self.unsupported(name)),
            None => Ok(()),
        }
    }

    /// Returns the error for an argument that a MongoDB server has and this server lacks.
    pub(crate) fn unsupported(&self, name: &str) -> CommandError {
        let command = &self.command;
        let message = format!("the argument `{name}` of `{command}` is not supported");
        CommandError::not_supported(message)
    }

    pub(crate) fn text(&mut self, name: &str) -> Result<Option<String>> {
        match self.value(name) {
            None => Ok(None),
            Some(RawBson::String(text)) => Ok(Some(text)),
            Some(other) => Err(self.wrong_type(name, &other, "string")),
        }
    }

    pub(crate) fn required_text(&mut self, name: &str) -> Result<String> {
        self.text(name)?.ok_or_else(|| self.missing(name))
    }

    /// Takes the name of a collection.
    pub(crate) fn collection(&mut self, name: &str) -> Result<String> {
        match self.value_or_null(name) {
            Some(RawBson::String(collection)) => Ok(collection),
            Some(other) => Err(CommandError::bad_value(format!(
                "collection name has invalid type {}",
                element_type_name(other.element_type())
            ))),
            None => Err(self.missing(name)),
        }
    }

    /// Takes a flag. Numbers are true unless they are zero, as on MongoDB.
    pub(crate) fn flag(&mut self, name: &str) -> Result<bool> {
        Ok(self.optional_flag(name)?.unwrap_or(false))
    }

    pub(crate) fn optional_flag(&mut self, name: &str) -> Result<Option<bool>> {
        let Some(value) = self.value(name) else {
            return Ok(None);
        };
        match value.as_raw_bson_ref() {
            RawBsonRef::Boolean(flag) => Ok(Some(flag)),
            number => match to_number(number) {
                Some(number) => Ok(Some(number != 0.0)),
                None => Err(self.wrong_type(name, &value, "bool, long, int, decimal, double")),
            },
        }
    }

    /// Takes a whole number. A fraction is cut off, as on MongoDB.
    pub(crate) fn integer(&mut self, name: &str) -> Result<Option<i64>> {
        let Some(value) = self.value(name) else {
            return Ok(None);
        };
        match value.as_raw_bson_ref() {
            RawBsonRef::Int64(number) => Ok(Some(number)),
            number => match to_number(number) {
                #[expect(
                    clippy::cast_possible_truncation,
                    reason = "the cast cuts off the fraction and keeps the range of i64"
                )]
                Some(number) => Ok(Some(number as i64)),
                None => Err(self.wrong_type(name, &value, "long, int, decimal, double")),
            },
        }
    }

    /// Takes a whole number that is not negative.
    pub(crate) fn unsigned(&mut self, name: &str) -> Result<Option<u64>> {
        let Some(number) = self.integer(name)? else {
            return Ok(None);
        };
        match u64::try_from(number) {
            Ok(number) => Ok(Some(number)),
            Err(_) => Err(CommandError::new(
                VALUE_OUT_OF_RANGE,
                format!("BSON field '{name}' value must be >= 0, actual value '{number}'"),
            )),
        }
    }

    pub(crate) fn document(&mut self, name: &str) -> Result<Option<RawDocumentBuf>> {
        match self.value(name) {
            None => Ok(None),
            Some(RawBson::Document(document)) => Ok(Some(document)),
            Some(other) => Err(self.wrong_type(name, &other, "object")),
        }
    }

    pub(crate) fn required_document(&mut self, name: &str) -> Result<RawDocumentBuf> {
        self.document(name)?.ok_or_else(|| self.missing(name))
    }

    /// Takes a list of documents: an array, or a sequence outside of the body.
    pub(crate) fn documents(&mut self, name: &str) -> Result<Option<Vec<RawDocumentBuf>>> {
        let sequences = &mut self.sequences;
        if let Some(position) = sequences.iter().position(|sequence| sequence.name == name) {
            return Ok(Some(sequences.swap_remove(position).documents));
        }
        match self.value(name) {
            None => Ok(None),
            Some(RawBson::Array(array)) => to_documents(name, &array).map(Some),
            Some(other) => Err(self.wrong_type(name, &other, "array")),
        }
    }

    pub(crate) fn required_documents(&mut self, name: &str) -> Result<Vec<RawDocumentBuf>> {
        self.documents(name)?.ok_or_else(|| self.missing(name))
    }

    /// Takes an index: its name or its key.
    pub(crate) fn hint(&mut self) -> Result<Option<RawBson>> {
        match self.value("hint") {
            Some(RawBson::Document(key)) if key.is_empty() => Ok(None),
            None => Ok(None),
            Some(hint @ (RawBson::String(_) | RawBson::Document(_))) => Ok(Some(hint)),
            Some(_) => Err(CommandError::new(
                code::FAILED_TO_PARSE,
                "Hint must be a string or an object",
            )),
        }
    }

    /// Takes the collation of an operation.
    ///
    /// # Errors
    /// Not a collation; rules that the engine does not have.
    pub(crate) fn collation(&mut self) -> Result<Option<Collation>> {
        match self.document("collation")? {
            Some(collation) if !collation.is_empty() => Ok(Collation::from_document(&collation)?),
            _ => Ok(None),
        }
    }

    /// Refuses the arguments that the command has not taken.
    pub(crate) fn finish(&self) -> Result<()> {
        let names = self.fields.iter().map(|field| &field.name);
        let sequences = self.sequences.iter().map(|sequence| &sequence.name);
        match names.chain(sequences).next() {
            None => Ok(()),
            Some(name) => Err(CommandError::new(
                code::UNKNOWN_FIELD,
                format!("BSON field '{}.{name}' is an unknown field.", self.command),
            )),
        }
    }

    pub(crate) fn missing(&self, name: &str) -> CommandError {
        let message = format!(
            "BSON field '{}.{name}' is missing but a required field",
            self.command
        );
        CommandError::new(code::MISSING_FIELD, message)
    }

    pub(crate) fn wrong_type(&self, name: &str, value: &RawBson, expected: &str) -> CommandError {
        let message = format!(
            "BSON field '{}.{name}' is the wrong type '{}', expected type '{expected}'",
            self.command,
            element_type_name(value.element_type())
        );
        CommandError::new(code::TYPE_MISMATCH, message)
    }
}

/// The error number for a number out of range.
const VALUE_OUT_OF_RANGE: i32 = 51024;

fn to_documents(name: &str, array: &RawArray) -> Result<Vec<RawDocumentBuf>> {
    let mut documents = Vec::new();
    for (position, element) in array.into_iter().enumerate() {
        match element? {
            RawBsonRef::Document(document) => documents.push(document.to_owned()),
            other => {
                let message = format!(
                    "BSON field '{name}.{position}' is the wrong type '{}', expected type 'object'",
                    element_type_name(other.element_type())
                );
                return Err(CommandError::new(code::TYPE_MISMATCH, message));
            }
        }
    }
    Ok(documents)
}

/// Returns a number of any type as a double.
pub(crate) fn to_number(value: RawBsonRef<'_>) -> Option<f64> {
    match value {
        RawBsonRef::Int32(number) => Some(f64::from(number)),
        #[expect(clippy::cast_precision_loss, reason = "callers read large i64 first")]
        RawBsonRef::Int64(number) => Some(number as f64),
        RawBsonRef::Double(number) => Some(number),
        RawBsonRef::Decimal128(number) => number.to_string().parse().ok(),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use bson::rawdoc;

    use super::*;

    fn arguments(document: &RawDocument) -> Arguments {
        Arguments::from_document(document).unwrap()
    }

    #[test]
    fn an_argument_that_no_command_takes_is_refused() {
        let mut find = arguments(&rawdoc! { "find": "c", "limit": 3.7, "frob": 1 });
        assert_eq!(find.required_text("find").unwrap(), "c");
        assert_eq!(find.integer("limit").unwrap(), Some(3));
        let error = find.finish().unwrap_err();
        assert_eq!(error.code(), code::UNKNOWN_FIELD);
        assert!(error.to_string().contains("find.frob"));
        find.accept(&["frob"]);
        find.finish().unwrap();
    }

    #[test]
    fn an_unsupported_argument_that_is_null_is_no_argument() {
        let mut distinct = arguments(&rawdoc! { "distinct": "c", "hint": null, "max": 3 });
        distinct.accept(&["distinct"]);
        distinct.refuse(&["hint", "min"]).unwrap();
        let error = distinct.refuse(&["min", "max"]).unwrap_err();
        assert_eq!(error.code(), code::COMMAND_NOT_SUPPORTED);
        assert!(error.to_string().contains("`max` of `distinct`"), "{error}");
        let mut without = arguments(&rawdoc! { "hint": null });
        without.refuse(&["hint"]).unwrap();
        without.finish().unwrap();
    }

    #[test]
    fn wrong_types_have_the_code_of_mongodb() {
        let find = || arguments(&rawdoc! { "find": 1, "filter": [], "skip": -1, "new": "yes" });
        let codes = [
            find().text("find").unwrap_err().code(),
            find().document("filter").unwrap_err().code(),
            find().flag("new").unwrap_err().code(),
            find().unsigned("skip").unwrap_err().code(),
            find().required_text("missing").unwrap_err().code(),
        ];
        assert_eq!(codes, [14, 14, 14, 51024, 40414]);
    }

    #[test]
    fn a_duplicate_argument_is_refused() {
        let mut twice = rawdoc! { "ping": 1 };
        twice.append(bson::raw::cstr!("ping"), 1);
        assert_eq!(Arguments::from_document(&twice).unwrap_err().code(), 40413);
        let message = Message {
            body: rawdoc! { "insert": "c", "documents": [] },
            sequences: vec![DocumentSequence {
                name: "documents".to_owned(),
                documents: Vec::new(),
            }],
            format: crate::message::ReplyFormat::Nothing,
        };
        assert!(Arguments::from_message(message).is_err());
    }
}
