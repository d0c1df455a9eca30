use std::borrow::Cow;
use std::collections::HashMap;

use bson::raw::CStr;

use super::node::UpdateNode;

/// The number of linear searches for a field before an index of the fields is built.
const MAX_OPENED_FIELD_SEARCHES: usize = 32;

/// The fields of an opened document, in order.
#[derive(Debug, Clone, Default)]
pub(super) struct OpenedFields<'d> {
    /// `None` for a removed field.
    all: Vec<Option<OpenedField<'d>>>,
    /// The index of each field by name, built after many searches.
    places: Option<HashMap<Box<str>, usize>>,
    searches: usize,
}

type OpenedField<'d> = (Cow<'d, CStr>, UpdateNode<'d>);

impl<'d> OpenedFields<'d> {
    pub(super) fn iter(&self) -> impl Iterator<Item = (&CStr, &UpdateNode<'d>)> {
        let fields = self.all.iter().flatten();
        fields.map(|(name, node)| (name.as_ref(), node))
    }

    /// Returns the first field of this name.
    pub(super) fn get_mut(&mut self, name: &str) -> Option<&mut UpdateNode<'d>> {
        let at = self.field_index(name)?;
        let (_, node) = self.all.get_mut(at)?.as_mut()?;
        Some(node)
    }

    /// Appends a field. The name must be new.
    pub(super) fn push_field(&mut self, name: Cow<'d, CStr>, node: UpdateNode<'d>) {
        if let Some(places) = &mut self.places {
            places.insert(name.as_str().into(), self.all.len());
        }
        self.all.push(Some((name, node)));
    }

    /// Removes the first field of this name.
    pub(super) fn remove_field(&mut self, name: &str) {
        let place = self.field_index(name).and_then(|at| self.all.get_mut(at));
        if let Some(field) = place {
            *field = None;
        }
        if let Some(places) = &mut self.places {
            places.remove(name);
        }
    }

    fn field_index(&mut self, name: &str) -> Option<usize> {
        if self.places.is_none() && self.searches < MAX_OPENED_FIELD_SEARCHES {
            self.searches += 1;
            let has_name = |field: &Option<OpenedField<'_>>| {
                field
                    .as_ref()
                    .is_some_and(|(field_name, _)| field_name.as_str() == name)
            };
            return self.all.iter().position(has_name);
        }
        let places = self.places.get_or_insert_with(|| {
            let mut places = HashMap::with_capacity(self.all.len());
            for (at, field) in self.all.iter().enumerate() {
                if let Some((name, _)) = field {
                    places.entry(name.as_str().into()).or_insert(at);
                }
            }
            places
        });
        places.get(name).copied()
    }
}

impl<'d> FromIterator<OpenedField<'d>> for OpenedFields<'d> {
    fn from_iter<I: IntoIterator<Item = OpenedField<'d>>>(fields: I) -> OpenedFields<'d> {
        OpenedFields {
            all: fields.into_iter().map(Some).collect(),
            ..OpenedFields::default()
        }
    }
}

#[cfg(test)]
mod tests {
    use bson::RawBson;
    use bson::raw::CString;

    use super::*;

    #[test]
    fn many_fields_are_found_like_few_fields() {
        let name = |n: usize| CString::try_from(n.to_string()).unwrap();
        let node = |n: usize| UpdateNode::New(RawBson::Int64(n as i64));
        let mut fields: OpenedFields<'_> =
            (0..100).map(|n| (Cow::Owned(name(n)), node(n))).collect();
        for n in 0..100 {
            assert!(fields.get_mut(&n.to_string()).is_some());
        }
        fields.remove_field("7");
        assert!(fields.get_mut("7").is_none());
        fields.push_field(Cow::Owned(name(7)), node(700));
        fields.push_field(Cow::Owned(name(100)), node(100));
        assert!(fields.get_mut("7").is_some() && fields.get_mut("100").is_some());
        let names: Vec<_> = fields
            .iter()
            .map(|(name, _)| name.as_str().to_owned())
            .collect();
        assert_eq!(names.len(), 101);
        assert_eq!(names[99..], ["7", "100"]);
    }
}
