//! Parsing of a projection document into a [`Projection`].

use std::sync::Arc;

use bson::{RawBsonRef, RawDocument};

use super::additions::{operator_name, parse_computation};
use super::slice::SliceRange;
use super::tree::{FieldProjection, PathCollision, ProjectionTree};
use super::{Projection, ProjectionContext, ProjectionMode};
use crate::expression::Environment;
use crate::filter::ElemMatch;
use crate::path::Path;
use crate::sort::check_field_path;
use crate::value::{self, Number};
use crate::{Error, Result};

/// Parses a projection.
pub(super) fn parse_projection(
    projection: &RawDocument,
    place: ProjectionContext,
    environment: &Arc<Environment>,
) -> Result<Projection> {
    if place == ProjectionContext::Stage && projection.is_empty() {
        return Err(Error::with_server_code(
            51272,
            "$project needs at least one field",
        ));
    }
    let mut parser = ProjectionParser {
        place,
        environment,
        mode: None,
        id: None,
        tree: ProjectionTree::default(),
        positional: None,
        has_elem_match: false,
        has_slice: false,
    };
    environment.parse_all(|| parser.parse_fields("", projection))?;
    let mode = parser.mode.unwrap_or(match parser.id {
        _ if parser.has_elem_match && !parser.has_slice => ProjectionMode::Include,
        Some(true) => ProjectionMode::Include,
        _ => ProjectionMode::Exclude,
    });
    Ok(Projection {
        mode,
        id: parser.id.unwrap_or(true),
        tree: parser.tree,
        positional: parser.positional,
    })
}

struct ProjectionParser<'e> {
    place: ProjectionContext,
    environment: &'e Arc<Environment>,
    /// Set by the first field that is included, excluded or computed.
    mode: Option<ProjectionMode>,
    id: Option<bool>,
    tree: ProjectionTree,
    positional: Option<Path>,
    has_elem_match: bool,
    has_slice: bool,
}

impl ProjectionParser<'_> {
    fn parse_fields(&mut self, prefix: &str, fields: &RawDocument) -> Result<()> {
        for (name, value) in value::fields(fields) {
            let path = if prefix.is_empty() {
                name.to_owned()
            } else {
                format!("{prefix}.{name}")
            };
            if self.place == ProjectionContext::Stage {
                if path.ends_with(".$") {
                    let message = "positional '$' is allowed only in queries";
                    return Err(Error::with_server_code(31324, message));
                }
                self.parse_field(&path, value)?;
                continue;
            }
            if path.contains(".$.") {
                let message =
                    format!("positional '$' must be at the end of the path, not as in '{path}'");
                return Err(Error::with_server_code(31394, message));
            }
            match path.strip_suffix(".$") {
                Some(array) => self.parse_positional(array, value)?,
                None => self.parse_field(&path, value)?,
            }
        }
        Ok(())
    }

    fn parse_field(&mut self, path: &str, value: RawBsonRef<'_>) -> Result<()> {
        check_field_path(path)?;
        match value {
            RawBsonRef::Document(inner) => self.parse_document(path, inner),
            RawBsonRef::Boolean(_)
            | RawBsonRef::Int32(_)
            | RawBsonRef::Int64(_)
            | RawBsonRef::Double(_)
            | RawBsonRef::Decimal128(_) => self.parse_plain(path, value::is_truthy(value)),
            value => self.parse_computed(path, value),
        }
    }

    fn parse_plain(&mut self, path: &str, include: bool) -> Result<()> {
        if path == "_id" {
            if self.tree.has_name("_id") || self.id.is_some() {
                let message = "the projection names '_id' twice, or a path inside '_id'";
                return Err(Error::with_server_code(31250, message));
            }
            self.id = Some(include);
            return Ok(());
        }
        self.insert_path(path, FieldProjection::Named)?;
        self.set_mode(
            path,
            if include {
                ProjectionMode::Include
            } else {
                ProjectionMode::Exclude
            },
        )
    }

    fn parse_document(&mut self, path: &str, inner: &RawDocument) -> Result<()> {
        let expression = RawBsonRef::Document(inner);
        let mut fields = value::fields(inner);
        match (self.place, fields.next(), fields.next()) {
            (_, None, _) => {
                let message = format!("the projection of '{path}' is empty");
                Err(Error::with_server_code(51270, message))
            }
            (ProjectionContext::Query, Some(("$slice", operand)), None) => {
                self.parse_slice(path, operand, expression)
            }
            (ProjectionContext::Query, Some(("$elemMatch", operand)), None) => {
                self.parse_elem_match(path, operand)
            }
            (_, Some((name, _)), None) if name.starts_with('$') => {
                self.parse_computed(path, expression)
            }
            _ if self.tree.has_leaf(Path::new(path).parts()) => {
                let message = format!("the projection names '{path}' twice");
                Err(Error::with_server_code(31250, message))
            }
            _ => self.parse_fields(path, inner),
        }
    }

    /// Parses `$slice`. As on MongoDB, an operand that is not a slice of the field is the
    /// expression `$slice`, which an exclusion does not allow.
    fn parse_slice(
        &mut self,
        path: &str,
        operand: RawBsonRef<'_>,
        expression: RawBsonRef<'_>,
    ) -> Result<()> {
        if let Some(slice) = SliceRange::parse(operand)
            && self
                .insert_path(path, FieldProjection::Slice(slice))
                .is_ok()
        {
            self.has_slice = true;
            return Ok(());
        }
        if self.mode == Some(ProjectionMode::Exclude) {
            let message =
                format!("cannot compute '{path}' by $slice in a projection that excludes fields");
            return Err(Error::with_server_code(31252, message));
        }
        self.parse_computed(path, expression)
    }

    fn parse_computed(&mut self, path: &str, value: RawBsonRef<'_>) -> Result<()> {
        let excludes = self.mode == Some(ProjectionMode::Exclude);
        let rejection = |code| {
            let message = format!("cannot compute '{path}' in a projection that excludes fields");
            Err(Error::with_server_code(code, message))
        };
        // As on MongoDB, an operator that an exclusion does not allow is reported before all other
        // errors.
        if excludes && operator_name(value).is_some() {
            return rejection(31252);
        }
        let computation = parse_computation(path, value, self.environment)?;
        self.insert_path(path, FieldProjection::Computed(computation))?;
        if excludes {
            return rejection(31310);
        }
        self.mode = Some(ProjectionMode::Include);
        Ok(())
    }

    fn parse_elem_match(&mut self, path: &str, operand: RawBsonRef<'_>) -> Result<()> {
        let RawBsonRef::Document(conditions) = operand else {
            let message = format!("$elemMatch of '{path}' needs a document of conditions");
            return Err(Error::with_server_code(31274, message));
        };
        if path.contains('.') {
            let message = format!("$elemMatch cannot project the nested field '{path}'");
            return Err(Error::with_server_code(31275, message));
        }
        if self.positional.is_some() {
            return Err(Error::with_server_code(
                31255,
                "a projection cannot have both '$' and $elemMatch",
            ));
        }
        self.has_elem_match = true;
        self.insert_path(
            path,
            FieldProjection::ElemMatch(ElemMatch::parse_conditions(
                conditions,
                self.environment.order(),
            )?),
        )
    }

    fn parse_positional(&mut self, path: &str, value: RawBsonRef<'_>) -> Result<()> {
        check_field_path(path)?;
        let rejection = |code, reason: &str| {
            let message = format!("positional '$' of '{path}' cannot be used {reason}");
            Err(Error::with_server_code(code, message))
        };
        match value {
            RawBsonRef::Document(_) => return rejection(31271, "with an expression"),
            RawBsonRef::Boolean(_) => {}
            value if Number::from_bson(value).is_some() => {}
            _ => return rejection(31308, "with a literal"),
        }
        if !value::is_truthy(value) {
            return rejection(31395, "in an exclusion");
        }
        if self.has_elem_match {
            return rejection(31256, "together with $elemMatch");
        }
        if self.positional.is_some() {
            return rejection(31276, "more than once");
        }
        self.insert_path(path, FieldProjection::Named)?;
        self.set_mode(path, ProjectionMode::Include)?;
        self.positional = Some(Path::new(path));
        Ok(())
    }

    fn set_mode(&mut self, path: &str, mode: ProjectionMode) -> Result<()> {
        match (*self.mode.get_or_insert(mode), mode) {
            (ProjectionMode::Include, ProjectionMode::Exclude) => Err(Error::with_server_code(
                31254,
                format!("cannot exclude '{path}' in a projection that includes fields"),
            )),
            (ProjectionMode::Exclude, ProjectionMode::Include) => Err(Error::with_server_code(
                31253,
                format!("cannot include '{path}' in a projection that excludes fields"),
            )),
            _ => Ok(()),
        }
    }

    fn insert_path(&mut self, path: &str, leaf: FieldProjection) -> Result<()> {
        if self.id.is_some() && path.starts_with("_id.") {
            let message = format!("the path '{path}' lies inside another path of the projection");
            return Err(Error::with_server_code(31249, message));
        }
        match self.tree.insert_path(Path::new(path).parts(), leaf)? {
            None => Ok(()),
            Some(PathCollision::Inside) => {
                let message =
                    format!("the path '{path}' lies inside another path of the projection");
                Err(Error::with_server_code(31249, message))
            }
            Some(PathCollision::Around) => {
                let message =
                    format!("the projection names '{path}' twice, or a path inside '{path}'");
                Err(Error::with_server_code(31250, message))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bson::rawdoc;

    fn projection(document: &bson::RawDocumentBuf) -> Result<Projection> {
        parse_projection(document, ProjectionContext::Query, &Arc::default())
    }

    #[test]
    fn unnamed_fields_follow_the_kind_of_projection() {
        let mode = |document: bson::RawDocumentBuf| projection(&document).unwrap().mode;
        assert_eq!(mode(rawdoc! {}), ProjectionMode::Exclude);
        assert_eq!(mode(rawdoc! { "_id": 1 }), ProjectionMode::Include);
        assert_eq!(mode(rawdoc! { "_id": 0 }), ProjectionMode::Exclude);
        assert_eq!(
            mode(rawdoc! { "a": { "$slice": 1 } }),
            ProjectionMode::Exclude
        );
        assert_eq!(
            mode(rawdoc! { "a": { "$elemMatch": { "b": 1 } } }),
            ProjectionMode::Include
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
    fn the_kind_of_projection_decides_overlapping_paths() {
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
