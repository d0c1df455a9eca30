//! Paths to references in stored documents.

use bson::{RawBsonRef, RawDocument};

use crate::{
    Result,
    language::field::{Path, Tag},
};

/// The path to the references of a join in a stored document.
#[derive(Debug, Clone)]
pub(super) struct ReferencePath {
    dotted: String,
    names: Vec<String>,
    /// The enums on the path, with the variants that they must have. The number is the depth of the enum: the names before it.
    variants: Vec<(usize, Tag)>,
}

impl ReferencePath {
    /// The path of a place.
    ///
    /// # Errors
    ///
    /// The error of a path that a query cannot express.
    pub(super) fn from_path(path: &Path) -> Result<Self> {
        let variants = path.enclosing_variants().into_iter().map(|(at, tag)| {
            let names = path_names(at.dotted()?).count();
            Ok((names, tag))
        });
        Ok(Self {
            variants: variants.collect::<Result<_>>()?,
            names: path_names(path.dotted()?).map(str::to_owned).collect(),
            dotted: path.dotted()?.to_owned(),
        })
    }

    /// The path of a place outside of enums, as a dotted path. The empty path is the document itself.
    pub(super) fn from_dotted(path: &str) -> Self {
        Self {
            variants: Vec::new(),
            names: path_names(path).map(str::to_owned).collect(),
            dotted: path.to_owned(),
        }
    }

    /// Returns the dotted path, in MongoDB's notation.
    pub(super) fn dotted(&self) -> &str {
        &self.dotted
    }

    /// Returns the stored fields that a document must contain: the references, and the tags of the enums on the path.
    pub(super) fn needed_fields(&self) -> Vec<String> {
        let field = |names: &[String], last: Option<&str>| {
            let names = names.iter().map(String::as_str).chain(last);
            // A projection cannot name an element of an array.
            let names = names.take_while(|name| name.parse::<usize>().is_err());
            names.collect::<Vec<_>>().join(".")
        };
        let tags = self.variants.iter().filter_map(|(at, tag)| {
            let tag = tag.tag_field()?;
            Some(field(self.names.get(..*at)?, Some(tag)))
        });
        [field(&self.names, None)].into_iter().chain(tags).collect()
    }

    /// Returns the references of a document, in order, through arrays. Null and missing values are skipped.
    ///
    /// Returns `None` if no enum on the path has its variant, so that the document has no such place.
    pub(super) fn find_references<'d>(
        &self,
        document: &'d RawDocument,
    ) -> Option<Vec<RawBsonRef<'d>>> {
        let mut references = None;
        if self.variants.is_empty() {
            references = Some(Vec::new());
        }
        self.collect_below(RawBsonRef::Document(document), 0, &mut references);
        references
    }

    /// Collects the references below a value at the depth `at`.
    fn collect_below<'d>(
        &self,
        value: RawBsonRef<'d>,
        depth: usize,
        references: &mut Option<Vec<RawBsonRef<'d>>>,
    ) {
        let name = self.names.get(depth);
        match value {
            RawBsonRef::Null | RawBsonRef::Undefined => return,
            RawBsonRef::Array(array) => {
                match name.and_then(|name| name.parse::<usize>().ok()) {
                    Some(index) => {
                        if let Ok(Some(element)) = array.get(index) {
                            self.collect_below(element, depth + 1, references);
                        }
                    }
                    None => {
                        for element in array.into_iter().flatten() {
                            self.collect_below(element, depth, references);
                        }
                    }
                }
                return;
            }
            _ => {}
        }
        for (_, tag) in self
            .variants
            .iter()
            .filter(|(enum_depth, _)| *enum_depth == depth)
        {
            if !tag.matches_value(value) {
                return;
            }
        }
        if self
            .variants
            .last()
            .is_some_and(|(enum_depth, _)| *enum_depth == depth)
        {
            references.get_or_insert_default();
        }
        match (value, name) {
            (value, None) => references.get_or_insert_default().push(value),
            (RawBsonRef::Document(document), Some(name)) => {
                if let Ok(Some(value)) = document.get(name) {
                    self.collect_below(value, depth + 1, references);
                }
            }
            _ => {}
        }
    }
}

/// Returns the names in a dotted path. The path of the document itself has none.
fn path_names(dotted: &str) -> impl Iterator<Item = &str> {
    dotted.split('.').filter(|name| !name.is_empty())
}

#[cfg(test)]
mod tests {
    use bson::{Bson, rawdoc};

    use super::*;

    fn path_with_variants(path: &str, variants: &[(usize, Tag)]) -> ReferencePath {
        ReferencePath {
            dotted: path.to_owned(),
            names: path_names(path).map(str::to_owned).collect(),
            variants: variants.to_vec(),
        }
    }

    fn references_at(document: &RawDocument, path: &str) -> Vec<Bson> {
        to_values(
            path_with_variants(path, &[])
                .find_references(document)
                .unwrap(),
        )
    }

    fn to_values(references: Vec<RawBsonRef<'_>>) -> Vec<Bson> {
        let values = references
            .into_iter()
            .map(|value| value.try_into().unwrap());
        values.collect()
    }

    #[test]
    fn references_are_found_in_order_through_arrays() {
        let document = rawdoc! {
            "a": 1, "none": null,
            "many": [3, 1, 2, 1],
            "lines": [{"id": 7}, {}, {"id": null}, {"id": 8}, {"id": [9, 10]}],
        };
        assert_eq!(references_at(&document, "a"), [Bson::Int32(1)]);
        assert!(references_at(&document, "none").is_empty());
        assert!(references_at(&document, "absent.below").is_empty());
        assert_eq!(
            references_at(&document, "many"),
            [3, 1, 2, 1].map(Bson::Int32)
        );
        assert_eq!(
            references_at(&document, "lines.id"),
            [7, 8, 9, 10].map(Bson::Int32)
        );
        assert_eq!(references_at(&document, "lines.3.id"), [Bson::Int32(8)]);
    }

    #[test]
    fn only_references_of_the_variant_are_found() {
        let document = rawdoc! {
            "own": {"kind": "user", "id": 1},
            "all": [{"kind": "user", "id": 2}, {"kind": "team", "id": 3}, "other", {"kind": "user"}, {"kind": "user", "id": 4}],
            "nested": [{"team": {"lead": {"kind": "user", "id": 5}}}, {"team": {"lead": {"kind": "none", "id": 6}}}, {"user": 7}],
        };
        let user = Tag::Field("kind", "user");
        let ids_at = |path, variants: &[_]| {
            path_with_variants(path, variants)
                .find_references(&document)
                .map(|references| {
                    to_values(references)
                        .into_iter()
                        .map(|id| id.as_i32().unwrap())
                })
                .map(Iterator::collect::<Vec<_>>)
        };
        assert_eq!(ids_at("own.id", &[(1, user)]), Some(vec![1]));
        assert_eq!(ids_at("own.id", &[(1, Tag::Field("kind", "team"))]), None);
        // The value has the variant, but lacks the field.
        assert_eq!(ids_at("own.ids", &[(1, user)]), Some(vec![]));
        assert_eq!(ids_at("all.id", &[(1, user)]), Some(vec![2, 4]));
        assert_eq!(ids_at("all.0.id", &[(2, user)]), Some(vec![2]));
        assert_eq!(ids_at("all.1.id", &[(2, user)]), None);
        let segments = [(1, Tag::Key("team")), (3, user)];
        assert_eq!(ids_at("nested.team.lead.id", &segments), Some(vec![5]));
        assert_eq!(
            ids_at("nested.user", &[(1, Tag::Key("user"))]),
            Some(vec![7])
        );
        // The enum is the document itself.
        assert_eq!(ids_at("own.id", &[(0, user)]), None);
        assert_eq!(ids_at("own.id", &[(0, Tag::Key("own"))]), Some(vec![1]));
    }

    #[test]
    fn a_projection_includes_the_variant_tag() {
        let user = Tag::Field("kind", "user");
        assert_eq!(
            path_with_variants("a.id", &[(1, user)]).needed_fields(),
            ["a.id", "a.kind"]
        );
        assert_eq!(
            path_with_variants("id", &[(0, user)]).needed_fields(),
            ["id", "kind"]
        );
        assert_eq!(
            path_with_variants("a.3.id", &[(2, user)]).needed_fields(),
            ["a", "a"]
        );
        assert_eq!(
            path_with_variants("a.user", &[(1, Tag::Key("user"))]).needed_fields(),
            ["a.user"]
        );
    }
}
