//! Keyset pagination: a picture board with 20 pictures on a page, where the last page costs the same as the first page.
//!
//! ```text
//! page 1: picture 999 to picture 980, 21 keys and 21 documents examined
//! page 2: picture 979 to picture 960, 21 keys and 21 documents examined
//! …
//! page 50: picture 19 to picture 0, 20 keys and 20 documents examined
//! back on page 49: picture 39 to picture 20
//! another thread: the page token belongs to a query with another filter or sort: start with the first page …
//! ```
//!
//! `keyset_pagination [URL [PICTURES]]`: the first argument is the URL of a database; the default is memory. The second argument
//! is the number of pictures. The output shows the first pages, the 5,000th page and the last page.

use odm::{Filter, Page, PageToken, prelude::*};

/// The index of a page: the filter field, the sort field, and the `_id` as a tie-breaker.
#[derive(Debug, Clone, Serialize, Deserialize, Document)]
#[document(collection = "pictures", index(thread, -date, -id))]
struct Picture {
    #[serde(rename = "_id")]
    id: i64,
    thread: i32,
    date: DateTime,
    title: String,
}

#[derive(Schema)]
#[schema(models(Picture))]
struct Board;
type Db = odm::Database<Board>;

/// Returns a page of a thread, like a web handler with a token from the URL.
async fn page(db: &Db, thread: i32, token: Option<PageToken>) -> odm::Result<Page<Picture>> {
    db.find::<Picture>()
        .filter(|p| p.thread().eq(thread))
        .sort(|p| p.date().desc())
        .page(20)
        .after(token)
        .await
}

#[tokio::main]
async fn main() -> odm::Result<()> {
    let url = std::env::args().nth(1).unwrap_or("memory:".into());
    let pictures = std::env::args()
        .nth(2)
        .map_or(Ok(1_000), |n| n.parse())
        .map_err(odm::Error::other)?;
    let db = Db::open(&url).await?;
    db.sync_indexes().await?;
    // Remove the documents of an earlier run.
    db.delete_many::<Picture>(|_| Filter::all()).await?;
    let picture = |id: i64| Picture {
        id,
        thread: 7,
        date: DateTime::from_millis(1_700_000_000_000 + id * 1_000),
        title: format!("picture {id}"),
    };
    for start in (0..pictures).step_by(10_000) {
        db.insert_many((start..pictures.min(start + 10_000)).map(picture))
            .await?;
    }

    let (mut token, mut number) = (None, 0);
    let last = loop {
        number += 1;
        let here = page(&db, 7, token.clone()).await?;
        let is_last = here.next.is_none();
        if number <= 2 || number == 5_000 || is_last {
            let explain = db
                .find::<Picture>()
                .filter(|p| p.thread().eq(7))
                .sort(|p| p.date().desc())
                .page(20)
                .after(token)
                .explain()
                .await?;
            println!(
                "page {number}: {}, {} keys and {} documents examined",
                titles(&here),
                explain.keys_examined,
                explain.documents_examined
            );
        } else if number == 3 {
            println!("…");
        }
        if is_last {
            break here;
        }
        // Parse the token, as from a link.
        token = here.next.map(|next| next.to_string().parse()).transpose()?;
    };

    let before = db
        .find::<Picture>()
        .filter(|p| p.thread().eq(7))
        .sort(|p| p.date().desc())
        .page(20)
        .before(last.previous)
        .await?;
    println!("back on page {}: {}", number - 1, titles(&before));
    if let Err(error) = page(&db, 8, before.next).await {
        println!("another thread: {error}");
    }
    Ok(())
}

fn titles(page: &Page<Picture>) -> String {
    let title = |picture: Option<&Picture>| {
        picture
            .map_or("nothing", |picture| &picture.title)
            .to_owned()
    };
    format!(
        "{} to {}",
        title(page.items.first()),
        title(page.items.last())
    )
}
