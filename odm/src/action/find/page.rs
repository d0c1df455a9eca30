//! Pages: each begins behind the one before it, wherever that is by then.

mod token;

use std::pin::Pin;

use bson::{RawBson, RawDocumentBuf};
use serde::{Deserialize, Serialize};

use token::Side;
pub use token::{IntoPageToken, PageToken};

use super::{Find, assemble};
use crate::{
    Error, ErrorKind, Result,
    backend::operation::{self, Direction, Explain},
    document::{Document, Stored},
    error,
    field::Path,
    projection::{self, Projection},
    query::{Filter, Sort, behind, key_of, read_by, sort_to_raw},
    relation::Joins,
    schema::Schema,
};

/// Documents that a query can skip: none. Without this, `skip` is the one of iterators, which a query is not.
#[doc(hidden)]
#[diagnostic::on_unimplemented(
    message = "a query skips no documents",
    label = "reads all that it skips, and misses some when others are deleted meanwhile",
    note = "a page begins behind the one before it: `.page(20).after(token)`, where `token` is its `next`"
)]
pub trait Skips {}

impl<S: Schema, T: Document, P: Projection<Of = T>, J: Joins<P>, C> Find<S, T, P, J, C> {
    /// Not there: see [`Skips`].
    #[doc(hidden)]
    pub fn skip(self, _: u64) -> Self
    where
        T: Skips,
    {
        self
    }

    /// One page of this many documents, the first unless [`after`](FindPage::after) or [`before`](FindPage::before) says
    /// otherwise.
    ///
    /// A page costs the same however deep it is: it begins behind the last document of the one before it, by the values
    /// that it is sorted by, so nothing is skipped. Documents that are inserted or deleted meanwhile shift no others: none
    /// comes twice or stays out, unless the values that it is sorted by change.
    ///
    /// The `_id` decides between documents that the sort leaves equal, in the direction of the last field. For an index
    /// to give the order it has to end in the `_id` too: `index(thread, -date, -id)`, or the same the other way round, for
    /// a page of one thread sorted by the date; [`explain`](FindPage::explain) shows it.
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
            find: self.checked(),
            size,
            after: None,
            before: None,
        }
    }
}

/// Some of the documents of a query, with the way to those behind and before them.
///
/// It can be sent as it is, for instance as JSON.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Page<T> {
    /// What is on the page, in the order of the query.
    pub items: Vec<T>,
    /// For [`FindPage::after`]: where the next page begins, if anything is there. When the page was asked for by
    /// `before`, it is always there.
    pub next: Option<PageToken>,
    /// For [`FindPage::before`]: where the page before this one ends, if anything is there. When the page was asked for
    /// by `after`, it is always there.
    pub previous: Option<PageToken>,
}

/// Reads one page of a query; made by [`Find::page`].
///
/// It fails with [`InvalidPageToken`](ErrorKind::InvalidPageToken) for a token of another query, with
/// [`Invalid`](ErrorKind::Invalid) for a page of no documents, for a query that has a `limit`, and when both `after` and
/// `before` are given; and as [`Find::all`] does.
#[must_use = "a page is read when it is awaited"]
pub struct FindPage<S, T: Document, P, J> {
    find: Find<S, T, P, J>,
    size: u32,
    after: Option<PageToken>,
    before: Option<PageToken>,
}

impl<S, T: Document, P, J> FindPage<S, T, P, J> {
    /// The page that begins where another one said that the [`next`](Page::next) does; without a token the first one.
    pub fn after(mut self, token: impl IntoPageToken) -> Self {
        self.after = token.into_page_token();
        self
    }

    /// The page that ends where another one said that the [`previous`](Page::previous) does; without a token nothing
    /// changes.
    pub fn before(mut self, token: impl IntoPageToken) -> Self {
        self.before = token.into_page_token();
        self
    }
}

impl<S: Schema, T: Document, P: Projection<Of = T>, J: Joins<P>> FindPage<S, T, P, J> {
    /// How the page is found, and what that takes: see [`Find::explain`].
    ///
    /// One document more than the page has is looked for, to see whether there is a next one.
    ///
    /// # Errors
    ///
    /// Those of the page, and of [`Find::explain`].
    pub async fn explain(self) -> Result<Explain> {
        let access = self.find.access.clone();
        let ask = self.ask().map_err(error::of_model::<T>)?;
        access.explain(&T::MODEL, ask.operation).await
    }

    async fn read(self) -> Result<Page<J::Item>> {
        let access = self.find.access.clone();
        let ask = self.ask().map_err(error::of_model::<T>)?;
        let Ask { sorts, query, .. } = ask;
        let mut raws = access.find_all(&T::MODEL, ask.operation).await?;
        let size = usize::try_from(self.size).unwrap_or(usize::MAX);
        let has_more = raws.len() > size;
        raws.truncate(size);
        let is_backwards = self.before.is_some();
        if is_backwards {
            raws.reverse();
        }
        let token = |at: Option<&RawDocumentBuf>, side| {
            let key = at.map(|at| key_of(at, &sorts)).transpose();
            let key = key.map_err(error::of_model::<T>)?;
            Ok::<_, Error>(key.map(|key| PageToken::new(query, side, key)))
        };
        // A page that was reached from another has that one beside it. An empty one is where its token is.
        let next = match (has_more, &self.before) {
            (true, None) => token(raws.last(), Side::Behind)?,
            (false, None) => None,
            (_, Some(before)) => token(raws.last(), Side::Behind)?.or_else(|| Some(before.clone())),
        };
        let previous = match (&self.after, has_more && is_backwards) {
            (Some(after), _) => token(raws.first(), Side::Before)?.or_else(|| Some(after.clone())),
            (None, true) => token(raws.first(), Side::Before)?,
            (None, false) => None,
        };
        let items = assemble::<P, J>(access, raws, self.find.joins).await?;
        Ok(Page {
            items: items.into_iter().collect::<Result<_>>()?,
            next,
            previous,
        })
    }

    /// What is asked of the backend: one document more than the page has, from the page's beginning on.
    fn ask(&self) -> Result<Ask<T>> {
        let find = &self.find;
        if self.size == 0 {
            return Err(refused("a page has at least one document"));
        }
        if find.limit.is_some() {
            return Err(refused(
                "a page has a size of its own: leave the `limit` out",
            ));
        }
        let mut sorts = find.sort.clone();
        if !sorts.iter().any(|sort| sort.is_by("_id")) {
            let direction = sorts.last().map_or(Direction::Ascending, Sort::direction);
            let id = Path::ROOT.then("_id");
            sorts.push(Sort::new(id, direction, T::Id::BRACKETS));
        }
        let raw_sort = sort_to_raw(&sorts)?.unwrap_or_default();
        // What a token is good for is also whose documents are seen, and which of them; and that is asked for with the rest, so that
        // an index serves each way by itself.
        let mut filter = find.filter.clone().and(find.access.node(&T::MODEL)?);
        let asked = Filter::<T>::from_node(filter.clone()).to_raw()?;
        let query = token::query_of(T::COLLECTION, &asked, &raw_sort);

        let (walked, start) = match (&self.after, &self.before) {
            (Some(_), Some(_)) => {
                return Err(refused("a page is after a token or before one, not both"));
            }
            (None, None) => (sorts.clone(), None),
            (Some(token), None) => (sorts.clone(), Some((token, Side::Before))),
            (None, Some(token)) => (
                sorts.iter().map(Sort::reversed).collect(),
                Some((token, Side::Behind)),
            ),
        };
        if let Some((token, including)) = start {
            let key = token.key_for(query)?;
            let behind = behind(key, &walked, token.side() == including);
            filter = filter.and_each(behind.ok_or_else(token::of_another_query)?);
        }
        let mut needs = find.joins.needs()?;
        needs.extend(read_by(&sorts)?);
        let operation = operation::Find {
            collection: T::COLLECTION.into(),
            filter: Filter::<T>::from_node(filter).to_raw()?,
            projection: projection::to_raw::<P>(&needs)?,
            sort: sort_to_raw(&walked)?,
            limit: Some(u64::from(self.size) + 1),
            max_time: None,
        };
        Ok(Ask {
            operation,
            sorts,
            query,
        })
    }
}

/// What a page asks of the backend.
struct Ask<T> {
    operation: operation::Find,
    /// The order of the query, the `_id` included.
    sorts: Vec<Sort<T>>,
    /// What its tokens are good for.
    query: u64,
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
        Box::pin(self.read())
    }
}

impl<S, T: Document, P, J: Clone> Clone for FindPage<S, T, P, J> {
    fn clone(&self) -> Self {
        Self {
            find: self.find.clone(),
            size: self.size,
            after: self.after.clone(),
            before: self.before.clone(),
        }
    }
}

fn refused(why: &str) -> Error {
    Error::new(ErrorKind::Invalid, why)
}

/// The values that a document is sorted by.
type Key = Vec<RawBson>;
