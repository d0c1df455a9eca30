//! Pages of a query. Each page begins after the last document of the page before, wherever that document is by then.

mod token;

use std::pin::Pin;

use bson::{RawBson, RawDocumentBuf};
use serde::{Deserialize, Serialize};

use token::TokenSide;
pub use token::{IntoPageToken, PageToken};

use super::{Find, decode_and_join, scope_index::explain_in_scope};
use crate::{
    Error, ErrorKind, Result,
    backend::operation::{self, Direction, Explain},
    error,
    language::{
        field::Path,
        query::{Sort, after_position, description, sort_fields, sort_key, sort_to_raw, to_raw},
    },
    model::{
        document::{Document, Stored},
        projection::{self, Projection},
    },
    relation::{Joins, Resolved, explain_related, resolve_for_read},
    schema::Schema,
};

/// Models with queries that can skip documents: no model implements this trait. Without this trait, `skip` would resolve to the
/// method of iterators, and the compile error would not help.
#[doc(hidden)]
#[diagnostic::on_unimplemented(
    message = "a query cannot skip documents",
    label = "would read all skipped documents, and miss documents after a delete",
    note = "read pages: `.page(20).after(token)`, where `token` is the `next` of the page before"
)]
pub trait Skips {}

impl<S: Schema, T: Document, P: Projection<Of = T>, J: Joins<P>, C> Find<S, T, P, J, C> {
    /// Never callable: see [`Skips`].
    #[doc(hidden)]
    pub fn skip(self, _: u64) -> Self
    where
        T: Skips,
    {
        self
    }

    /// Reads one page of `size` documents: the first page, unless [`after`](FindPage::after) or [`before`](FindPage::before)
    /// gives a token.
    ///
    /// A page costs the same however deep the page is, as the query starts at the sort values of the last document before the
    /// page. Inserts and deletes between two pages neither repeat nor hide other documents. A document can appear twice or never
    /// only if its own sort values change.
    ///
    /// The `_id` decides between documents that the sort leaves equal, in the direction of the last field. An index serves the
    /// order only if the index ends in the `_id` too. For a page of one thread sorted by the date, that is `index(thread, -date,
    /// -id)` or its reverse. [`explain`](FindPage::explain) shows the index in use.
    ///
    /// ```
    /// use odm::{Page, PageToken, prelude::*};
    ///
    /// #[derive(Debug, Serialize, Deserialize, Document)]
    /// #[document(collection = "posts", index(author, -when, -id))]
    /// struct Post { #[serde(rename = "_id")] id: i64, author: String, when: DateTime }
    /// # #[derive(Schema)] #[schema(models(Post))] struct Blog;
    /// # type Db = odm::Database<Blog>;
    ///
    /// /// `token` comes from the URL, and the next one goes into a link.
    /// async fn posts_of(db: &Db, author: &str, token: Option<PageToken>) -> odm::Result<Page<Post>> {
    ///     db.find::<Post>().filter(|p| p.author().eq(author)).sort(|p| p.when().desc()).page(20).after(token).await
    /// }
    /// # #[cfg(feature = "engine")]
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> odm::Result<()> {
    /// # let db = Db::open("memory:").await?;
    /// # for id in 0..25 { db.insert(Post { id, author: "alex".into(), when: DateTime::from_millis(id) }).await?; }
    /// let first = posts_of(&db, "alex", None).await?;
    /// let link = first.next.expect("25 are more than 20").to_string();
    /// let second = posts_of(&db, "alex", Some(link.parse()?)).await?;
    /// assert_eq!((first.items.len(), second.items.len()), (20, 5));
    /// assert!(second.next.is_none());
    /// # Ok(())
    /// # }
    /// # #[cfg(not(feature = "engine"))]
    /// # fn main() {}
    /// ```
    pub fn page(self, size: u32) -> FindPage<S, T, P, J> {
        FindPage {
            find: self.erase_scope(),
            size,
            after: None,
            before: None,
            has_total: false,
        }
    }
}

/// One page of a query, with the tokens of the next and the previous page.
///
/// A page can be serialized, for instance as JSON.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "utoipa", derive(utoipa::ToSchema))]
pub struct Page<T> {
    /// The documents of the page, in the order of the query.
    pub items: Vec<T>,
    /// The token for [`FindPage::after`] that reads the next page; `None` at the end. A page that was read by `before` always has
    /// this token.
    pub next: Option<PageToken>,
    /// The token for [`FindPage::before`] that reads the previous page; `None` at the beginning. A page that was read by `after`
    /// always has this token.
    pub previous: Option<PageToken>,
    /// The number of documents on all pages, for a page with [`with_total`](FindPage::with_total).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub total: Option<u64>,
}

/// A query for one page; made by [`Find::page`].
///
/// # Errors
///
/// The awaited page fails with
///
/// - [`InvalidPageToken`](ErrorKind::InvalidPageToken) for a token of another query,
/// - [`Invalid`](ErrorKind::Invalid) for a size of 0, for a query that has a `limit`, and for `after` together with `before`,
/// - the errors of [`Find::all`].
#[must_use = "a page is read when awaited"]
pub struct FindPage<S, T: Document, P, J> {
    find: Find<S, T, P, J>,
    size: u32,
    after: Option<PageToken>,
    before: Option<PageToken>,
    has_total: bool,
}

impl<S, T: Document, P, J> FindPage<S, T, P, J> {
    /// Reads the page after the token, which is the [`next`](Page::next) of another page. Without a token, reads the first page.
    pub fn after(mut self, token: impl IntoPageToken) -> Self {
        self.after = token.into_page_token();
        self
    }

    /// Reads the page before the token, which is the [`previous`](Page::previous) of another page. Without a token, nothing
    /// changes.
    pub fn before(mut self, token: impl IntoPageToken) -> Self {
        self.before = token.into_page_token();
        self
    }

    /// Counts the documents on all pages: [`Page::total`]. The count is a second query, which reads every matching document or index
    /// entry, so a page with a total costs more than a page of a large result.
    pub fn with_total(mut self) -> Self {
        self.has_total = true;
        self
    }
}

impl<S: Schema, T: Document, P: Projection<Of = T>, J: Joins<P>> FindPage<S, T, P, J> {
    /// Returns the query plan of the page: see [`Find::explain`].
    ///
    /// The query looks for one document more than the page has, to see whether a next page exists.
    ///
    /// # Errors
    ///
    /// Errors of the page, and of [`Find::explain`].
    pub async fn explain(self) -> Result<Explain> {
        let access = self.find.access.clone();
        let filter = self.find.filter.clone();
        let (resolved, related) = explain_related(&access, &T::MODEL, filter).await?;
        let page_query = self.page_query(&resolved).map_err(error::of_model::<T>)?;
        let explain = explain_in_scope(&access, &T::MODEL, page_query.operation).await?;
        Ok(Explain { related, ..explain })
    }

    async fn read_page(self) -> Result<Page<J::Item>> {
        let access = self.find.access.clone();
        let filter = self.find.filter.clone();
        let resolved = resolve_for_read(&access, &T::MODEL, filter).await?;
        let page_query = self.page_query(&resolved);
        let page_query = page_query.map_err(error::of_model::<T>)?;
        let PageQuery {
            sorts,
            query_hash: query,
            ..
        } = page_query;
        let total = match self.has_total {
            true => {
                let mut find = self.find.clone();
                find.set_resolved(resolved);
                Some(find.count().await?)
            }
            false => None,
        };
        let mut raws = access.find_all(&T::MODEL, page_query.operation).await?;
        let size = usize::try_from(self.size).unwrap_or(usize::MAX);
        let has_more = raws.len() > size;
        raws.truncate(size);
        let is_backwards = self.before.is_some();
        if is_backwards {
            raws.reverse();
        }
        let token = |document: Option<&RawDocumentBuf>, side| {
            let key = document
                .map(|document| sort_key(document, &sorts))
                .transpose();
            let key = key.map_err(error::of_model::<T>)?;
            Ok::<_, Error>(key.map(|key| PageToken::new(query, side, key)))
        };
        // A page that was reached by a token always has a neighbor on that side. An empty page repeats the token as its position.
        let next = match (has_more, &self.before) {
            (true, None) => token(raws.last(), TokenSide::After)?,
            (false, None) => None,
            (_, Some(before)) => {
                token(raws.last(), TokenSide::After)?.or_else(|| Some(before.clone()))
            }
        };
        let previous = match (&self.after, has_more && is_backwards) {
            (Some(after), _) => {
                token(raws.first(), TokenSide::Before)?.or_else(|| Some(after.clone()))
            }
            (None, true) => token(raws.first(), TokenSide::Before)?,
            (None, false) => None,
        };
        let items = decode_and_join::<P, J>(access, raws, self.find.joins).await?;
        Ok(Page {
            items: items.into_iter().collect::<Result<_>>()?,
            next,
            previous,
            total,
        })
    }

    /// Builds the query of the page: one document more than the page size, from the start of the page on.
    ///
    /// `resolved` is the filter of the query without conditions on related documents.
    fn page_query(&self, resolved: &Resolved) -> Result<PageQuery<T>> {
        let find = &self.find;
        if self.size == 0 {
            return Err(invalid_page(
                "the page size is 0: a page has at least 1 document",
            ));
        }
        if find.limit.is_some() {
            return Err(invalid_page(
                "a page query has a page size: leave out `limit`",
            ));
        }
        let mut sorts = find.sort.clone();
        if !sorts.iter().any(|sort| sort.sorts_by("_id")) {
            let direction = sorts.last().map_or(Direction::Ascending, Sort::direction);
            let id = Path::ROOT.subfield("_id");
            sorts.push(Sort::new(id, direction, T::Id::BRACKETS));
        }
        let raw_sort = sort_to_raw(&sorts)?.unwrap_or_default();
        // The token is valid only for a query with the same scope and visibility. Add both conditions here: each branch of the
        // `$or` must contain them, so that an index serves each branch.
        let restriction = find.access.restriction_node(&T::MODEL)?;
        let mut filter = resolved.filter.clone().and(restriction.clone());
        // The token stays valid if other related documents meet the condition by then.
        let query_filter = to_raw(&description(&find.filter.clone().and(restriction)))?;
        let query = token::hash_query(T::COLLECTION, &query_filter, &raw_sort);

        let (walk_order, start) = match (&self.after, &self.before) {
            (Some(_), Some(_)) => {
                return Err(invalid_page(
                    "a page query takes a token by `after` or by `before`, not both",
                ));
            }
            (None, None) => (sorts.clone(), None),
            (Some(token), None) => (sorts.clone(), Some((token, TokenSide::Before))),
            (None, Some(token)) => (
                sorts.iter().map(Sort::reversed).collect(),
                Some((token, TokenSide::After)),
            ),
        };
        if let Some((token, inclusive_side)) = start {
            let key = token.key_for(query)?;
            let start_condition =
                after_position(key, &walk_order, token.token_side() == inclusive_side);
            filter = filter.and_alternatives(start_condition.ok_or_else(token::wrong_query_error)?);
        }
        let mut needs = find.joins.needed_fields()?;
        needs.extend(sort_fields(&sorts)?);
        let operation = operation::FindOperation {
            collection: T::COLLECTION.into(),
            filter: to_raw(&filter)?,
            projection: projection::to_raw::<P>(&needs)?,
            sort: sort_to_raw(&walk_order)?,
            limit: Some(u64::from(self.size) + 1),
            options: operation::ReadOptions {
                lookups: resolved.lookups.clone(),
                ..find.read_options()
            },
        };
        Ok(PageQuery {
            operation,
            sorts,
            query_hash: query,
        })
    }
}

/// The query of a page.
struct PageQuery<T> {
    operation: operation::FindOperation,
    /// The sort keys of the query, with the `_id`.
    sorts: Vec<Sort<T>>,
    /// The hash of the query, for page tokens.
    query_hash: u64,
}

impl<S, T, P, J> IntoFuture for FindPage<S, T, P, J>
where
    S: Schema,
    T: Document,
    P: Projection<Of = T>,
    J: Joins<P>,
{
    type Output = Result<Page<J::Item>>;
    type IntoFuture = Pin<Box<dyn Future<Output = Self::Output> + Send>>;
    fn into_future(self) -> Self::IntoFuture {
        Box::pin(self.read_page())
    }
}

impl<S, T: Document, P, J: Clone> Clone for FindPage<S, T, P, J> {
    fn clone(&self) -> Self {
        Self {
            find: self.find.clone(),
            size: self.size,
            after: self.after.clone(),
            before: self.before.clone(),
            has_total: self.has_total,
        }
    }
}

fn invalid_page(reason: &str) -> Error {
    Error::new(ErrorKind::Invalid, reason)
}

/// The sort values of one document.
type SortKey = Vec<RawBson>;
