use std::borrow::Cow;
use std::collections::HashMap;

use bson::raw::CStr;

use super::node::Node;

/// How often fields are looked for one after the other before their places are noted.
const MAX_SEARCHES: usize = 32;

/// The fields of a document that has been opened, in order.
#[derive(Debug, Clone, Default)]
pub(super) struct Fields<'d> {
    /// `None` where a field has been removed.
    all: Vec<Option<Field<'d>>>,
    /// Where the fields are, by name, once they have been looked for often.
    places: Option<HashMap<Box<str>, usize>>,
    searches: usize,
}

type Field<'d> = (Cow<'d, CStr>, Node<'d>);

impl<'d> Fields<'d> {
    pub(super) fn iter(&self) -> impl Iterator<Item = (&CStr, &Node<'d>)> {
        let fields = self.all.iter().flatten();
        fields.map(|(name, node)| (name.as_ref(), node))
    }

    /// The first field of this name.
    pub(super) fn get_mut(&mut self, name: &str) -> Option<&mut Node<'d>> {
        let at = self.place(name)?;
        let (_, node) = self.all.get_mut(at)?.as_mut()?;
        Some(node)
    }

    /// Adds a field with a name that is not there.
    pub(super) fn push(&mut self, name: Cow<'d, CStr>, node: Node<'d>) {
        if let Some(places) = &mut self.places {
            places.insert(name.as_str().into(), self.all.len());
        }
        self.all.push(Some((name, node)));
    }

    /// Removes the first field of this name.
    pub(super) fn remove(&mut self, name: &str) {
        let place = self.place(name).and_then(|at| self.all.get_mut(at));
        if let Some(field) = place {
            *field = None;
        }
        if let Some(places) = &mut self.places {
            places.remove(name);
        }
    }

    fn place(&mut self, name: &str) -> Option<usize> {
        if self.places.is_none() && self.searches < MAX_SEARCHES {
            self.searches += 1;
            let has_name = |field: &Option<Field<'_>>| {
                field.as_ref().is_some_and(|(own, _)| own.as_str() == name)
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

impl<'d> FromIterator<Field<'d>> for Fields<'d> {
    fn from_iter<I: IntoIterator<Item = Field<'d>>>(fields: I) -> Fields<'d> {
        Fields {
            all: fields.into_iter().map(Some).collect(),
            ..Fields::default()
        }
    }
}

#[cfg(test)]
mod tests {
    use bson::RawBson;
    use bson::raw::CString;

    use super::*;

    #[test]
    fn many_fields_are_found_as_few_are() {
        let name = |n: usize| CString::try_from(n.to_string()).unwrap();
        let node = |n: usize| Node::New(RawBson::Int64(n as i64));
        let mut fields: Fields<'_> = (0..100).map(|n| (Cow::Owned(name(n)), node(n))).collect();
        for n in 0..100 {
            assert!(fields.get_mut(&n.to_string()).is_some());
        }
        fields.remove("7");
        assert!(fields.get_mut("7").is_none());
        fields.push(Cow::Owned(name(7)), node(700));
        fields.push(Cow::Owned(name(100)), node(100));
        assert!(fields.get_mut("7").is_some() && fields.get_mut("100").is_some());
        let names: Vec<_> = fields
            .iter()
            .map(|(name, _)| name.as_str().to_owned())
            .collect();
        assert_eq!(names.len(), 101);
        assert_eq!(names[99..], ["7", "100"]);
    }
}
