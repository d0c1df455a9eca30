//! From a projection document to a [`Projection`].

use std::sync::Arc;

use bson::{RawBsonRef, RawDocument};

use super::additions::{computation, operator};
use super::slice::Slice;
use super::tree::{Collision, Leaf, Tree};
use super::{Mode, Place, Projection};
use crate::expression::Environment;
use crate::filter::ElemMatch;
use crate::path::Path;
use crate::sort::check_field_path;
use crate::value::{self, Number};
use crate::{Error, Result};

/// Reads a projection.
pub(super) fn projection(
    projection: &RawDocument,
    place: Place,
    environment: &Arc<Environment>,
) -> Result<Projection> {
    if place == Place::Stage && projection.is_empty() {
        return Err(Error::server(51272, "$project needs at least one field"));
    }
    let mut parser = Parser {
        place,
        environment,
        mode: None,
        id: None,
        tree: Tree::default(),
        positional: None,
        has_elem_match: false,
        has_slice: false,
    };
    environment.parse_all(|| parser.fields("", projection))?;
    let mode = parser.mode.unwrap_or(match parser.id {
        _ if parser.has_elem_match && !parser.has_slice => Mode::Include,
        Some(true) => Mode::Include,
        _ => Mode::Exclude,
    });
    Ok(Projection {
        mode,
        id: parser.id.unwrap_or(true),
        tree: parser.tree,
        positional: parser.positional,
    })
}

struct Parser<'e> {
    place: Place,
    environment: &'e Arc<Environment>,
    /// Set by the first field that is plainly included or excluded, or computed.
    mode: Option<Mode>,
    id: Option<bool>,
    tree: Tree,
    positional: Option<Path>,
    has_elem_match: bool,
    has_slice: bool,
}

impl Parser<'_> {
    fn fields(&mut self, prefix: &str, fields: &RawDocument) -> Result<()> {
        for (name, value) in value::fields(fields) {
            let path = if prefix.is_empty() {
                name.to_owned()
            } else {
                format!("{prefix}.{name}")
            };
            if self.place == Place::Stage {
                if path.ends_with(".$") {
                    let message = "positional '$' has a place in queries only";
                    return Err(Error::server(31324, message));
                }
                self.field(&path, value)?;
                continue;
            }
            if path.contains(".$.") {
                let message =
                    format!("positional '$' must be at the end of the path, not as in '{path}'");
                return Err(Error::server(31394, message));
            }
            match path.strip_suffix(".$") {
                Some(array) => self.positional(array, value)?,
                None => self.field(&path, value)?,
            }
        }
        Ok(())
    }

    fn field(&mut self, path: &str, value: RawBsonRef<'_>) -> Result<()> {
        check_field_path(path)?;
        match value {
            RawBsonRef::Document(inner) => self.document(path, inner),
            RawBsonRef::Boolean(_)
            | RawBsonRef::Int32(_)
            | RawBsonRef::Int64(_)
            | RawBsonRef::Double(_)
            | RawBsonRef::Decimal128(_) => self.plain(path, value::is_truthy(value)),
            value => self.computed(path, value),
        }
    }

    fn plain(&mut self, path: &str, include: bool) -> Result<()> {
        if path == "_id" {
            if self.tree.has("_id") || self.id.is_some() {
                let message = "the projection names '_id' or a path inside it before";
                return Err(Error::server(31250, message));
            }
            self.id = Some(include);
            return Ok(());
        }
        self.insert(path, Leaf::Named)?;
        self.set_mode(
            path,
            if include {
                Mode::Include
            } else {
                Mode::Exclude
            },
        )
    }

    fn document(&mut self, path: &str, inner: &RawDocument) -> Result<()> {
        let whole = RawBsonRef::Document(inner);
        let mut fields = value::fields(inner);
        match (self.place, fields.next(), fields.next()) {
            (_, None, _) => {
                let message = format!("the projection of '{path}' is empty");
                Err(Error::server(51270, message))
            }
            (Place::Query, Some(("$slice", operand)), None) => self.slice(path, operand, whole),
            (Place::Query, Some(("$elemMatch", operand)), None) => self.elem_match(path, operand),
            (_, Some((name, _)), None) if name.starts_with('$') => self.computed(path, whole),
            _ if self.tree.has_leaf(Path::new(path).parts()) => {
                let message = format!("the projection names '{path}' twice");
                Err(Error::server(31250, message))
            }
            _ => self.fields(path, inner),
        }
    }

    /// What is no slice of the field itself is, as on MongoDB, the expression of that name; none fits into an exclusion.
    fn slice(&mut self, path: &str, operand: RawBsonRef<'_>, whole: RawBsonRef<'_>) -> Result<()> {
        if let Some(slice) = Slice::parse(operand)
            && self.insert(path, Leaf::Slice(slice)).is_ok()
        {
            self.has_slice = true;
            return Ok(());
        }
        if self.mode == Some(Mode::Exclude) {
            let message = format!("an exclusion cannot compute '{path}' by $slice");
            return Err(Error::server(31252, message));
        }
        self.computed(path, whole)
    }

    fn computed(&mut self, path: &str, value: RawBsonRef<'_>) -> Result<()> {
        let excludes = self.mode == Some(Mode::Exclude);
        let refused = |code| {
            let message = format!("cannot compute '{path}' in a projection that excludes fields");
            Err(Error::server(code, message))
        };
        // Of an operator, that it is none of the projection's is told before all else.
        if excludes && operator(value).is_some() {
            return refused(31252);
        }
        let computation = computation(path, value, self.environment)?;
        self.insert(path, Leaf::Computed(computation))?;
        if excludes {
            return refused(31310);
        }
        self.mode = Some(Mode::Include);
        Ok(())
    }

    fn elem_match(&mut self, path: &str, operand: RawBsonRef<'_>) -> Result<()> {
        let RawBsonRef::Document(conditions) = operand else {
            let message = format!("$elemMatch of '{path}' needs a document of conditions");
            return Err(Error::server(31274, message));
        };
        if path.contains('.') {
            let message = format!("$elemMatch cannot project the nested field '{path}'");
            return Err(Error::server(31275, message));
        }
        if self.positional.is_some() {
            return Err(Error::server(
                31255,
                "a projection cannot have both '$' and $elemMatch",
            ));
        }
        self.has_elem_match = true;
        self.insert(path, Leaf::ElemMatch(ElemMatch::parse(conditions)?))
    }

    fn positional(&mut self, path: &str, value: RawBsonRef<'_>) -> Result<()> {
        check_field_path(path)?;
        let refused = |code, what: &str| {
            let message = format!("positional '$' of '{path}' cannot be used {what}");
            Err(Error::server(code, message))
        };
        match value {
            RawBsonRef::Document(_) => return refused(31271, "with an expression"),
            RawBsonRef::Boolean(_) => {}
            value if Number::from_bson(value).is_some() => {}
            _ => return refused(31308, "with a literal"),
        }
        if !value::is_truthy(value) {
            return refused(31395, "in an exclusion");
        }
        if self.has_elem_match {
            return refused(31256, "together with $elemMatch");
        }
        if self.positional.is_some() {
            return refused(31276, "more than once");
        }
        self.insert(path, Leaf::Named)?;
        self.set_mode(path, Mode::Include)?;
        self.positional = Some(Path::new(path));
        Ok(())
    }

    fn set_mode(&mut self, path: &str, mode: Mode) -> Result<()> {
        match (*self.mode.get_or_insert(mode), mode) {
            (Mode::Include, Mode::Exclude) => Err(Error::server(
                31254,
                format!("cannot exclude '{path}' in a projection that includes fields"),
            )),
            (Mode::Exclude, Mode::Include) => Err(Error::server(
                31253,
                format!("cannot include '{path}' in a projection that excludes fields"),
            )),
            _ => Ok(()),
        }
    }

    fn insert(&mut self, path: &str, leaf: Leaf) -> Result<()> {
        if self.id.is_some() && path.starts_with("_id.") {
            let message = format!("the path '{path}' leads into another of the projection");
            return Err(Error::server(31249, message));
        }
        match self.tree.insert(Path::new(path).parts(), leaf)? {
            None => Ok(()),
            Some(Collision::Inside) => {
                let message = format!("the path '{path}' leads into another of the projection");
                Err(Error::server(31249, message))
            }
            Some(Collision::Around) => {
                let message = format!("the projection names '{path}' twice, or a path inside it");
                Err(Error::server(31250, message))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bson::rawdoc;

    fn projection(document: &bson::RawDocumentBuf) -> Result<Projection> {
        super::projection(document, Place::Query, &Arc::default())
    }

    #[test]
    fn what_is_not_said_follows_from_what_is() {
        let mode = |document: bson::RawDocumentBuf| projection(&document).unwrap().mode;
        assert_eq!(mode(rawdoc! {}), Mode::Exclude);
        assert_eq!(mode(rawdoc! { "_id": 1 }), Mode::Include);
        assert_eq!(mode(rawdoc! { "_id": 0 }), Mode::Exclude);
        assert_eq!(mode(rawdoc! { "a": { "$slice": 1 } }), Mode::Exclude);
        assert_eq!(
            mode(rawdoc! { "a": { "$elemMatch": { "b": 1 } } }),
            Mode::Include
        );
    }

    #[test]
    fn malformed_operators_have_their_codes() {
        let code = |document: bson::RawDocumentBuf| projection(&document).unwrap_err().code();
        assert_eq!(code(rawdoc! { "a.$.b": 1 }), Some(31394));
        assert_eq!(code(rawdoc! { "a.$": "x" }), Some(31308));
        assert_eq!(code(rawdoc! { "a": { "$elemMatch": 1 } }), Some(31274));
        assert_eq!(code(rawdoc! { "a.b": { "$elemMatch": {} } }), Some(31275));
        assert_eq!(code(rawdoc! { "a": { "$nonsense": "x" } }), Some(31325));
        assert_eq!(code(rawdoc! { "a": 0, "b": "$a" }), Some(31310));
        assert_eq!(code(rawdoc! { "b.x": 0, "b": "$a" }), Some(31250));
        let malformed = rawdoc! { "$abs": [1, 2] };
        assert_eq!(code(rawdoc! { "a": 0, "b": malformed }), Some(31252));
    }

    #[test]
    fn of_paths_that_overlap_the_kind_of_projection_decides() {
        let code = |document: bson::RawDocumentBuf| projection(&document).unwrap_err().code();
        assert_eq!(code(rawdoc! { "a": 1, "a.b": 0 }), Some(31249));
        assert_eq!(code(rawdoc! { "a": 1, "b": 0 }), Some(31254));
        assert_eq!(code(rawdoc! { "a.$": 1, "a": { "b": 1 } }), Some(31250));
        assert_eq!(code(rawdoc! { "a": 0, "a.$": 1 }), Some(31250));
        assert_eq!(code(rawdoc! { "_id": 0, "_id.a": 1 }), Some(31249));
        assert_eq!(code(rawdoc! { "_id.a": 1, "_id": 0 }), Some(31250));
        let slice = |operand: i32| rawdoc! { "$slice": operand };
        assert_eq!(code(rawdoc! { "a": 0, "a.b": slice(1) }), Some(31252));
        assert_eq!(code(rawdoc! { "a.b": 1, "a": slice(1) }), Some(28667));
    }
}
