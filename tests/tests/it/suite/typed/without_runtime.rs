//! An application on an executor that is not from Tokio.

use std::{
    future::Future,
    pin::pin,
    sync::Arc,
    task::{Context, Poll, Wake, Waker},
    thread::{self, Thread},
    time::Duration,
};

use futures_util::StreamExt;
use odm::{backend::Backend, prelude::*, watch::Event};

use crate::Fixture;

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, Document)]
#[document(collection = "boards")]
struct Board {
    #[serde(rename = "_id")]
    id: i64,
    name: String,
    #[count(of = Card::board)]
    cards: i64,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, Document)]
#[document(collection = "cards")]
struct Card {
    #[serde(rename = "_id")]
    id: i64,
    #[reference(on_delete = cascade)]
    board: Ref<Board>,
    #[denormalize(from = board.name, background)]
    board_name: String,
    n: i64,
}

#[derive(Schema)]
#[schema(models(Board, Card))]
struct Office;
type Db = odm::Database<Office>;

/// A minimal executor: polls a future whenever the future is woken.
fn block_on<F: Future>(future: F) -> F::Output {
    struct Unpark(Thread);
    impl Wake for Unpark {
        fn wake(self: Arc<Self>) {
            self.0.unpark();
        }
    }
    let waker = Waker::from(Arc::new(Unpark(thread::current())));
    let mut future = pin!(future);
    loop {
        match future.as_mut().poll(&mut Context::from_waker(&waker)) {
            Poll::Ready(done) => return done,
            Poll::Pending => thread::park(),
        }
    }
}

/// Runs a test in a thread without a Tokio runtime.
async fn run_without_tokio<F: Future<Output = ()>>(work: impl FnOnce() -> F + Send + 'static) {
    let work = tokio::task::spawn_blocking(|| {
        let apart = thread::spawn(|| {
            assert!(tokio::runtime::Handle::try_current().is_err());
            block_on(work());
        });
        apart.join()
    });
    work.await.unwrap().expect("it does not panic");
}

async fn open(url: String, backend: Arc<dyn Backend>) -> Db {
    match url.starts_with("mongodb") {
        // The connection must be opened on the executor that uses the connection.
        true => Db::open(url).await.unwrap(),
        false => Db::with_backend(backend),
    }
}

pub async fn reads_and_writes_work(fixture: Fixture) {
    let (url, backend) = (fixture.url().to_owned(), fixture.backend());
    run_without_tokio(move || async move {
        let db = open(url, backend).await;
        db.sync_indexes().await.unwrap();
        db.insert(NewBoard {
            id: 1,
            name: "plans".into(),
        })
        .await
        .unwrap();
        let card = |id| NewCard {
            id,
            board: Ref::new(1),
            n: 0,
        };
        db.insert_many((1..=3).map(card)).await.unwrap();
        db.update::<Card>(1).inc(|c| c.n(), 1).await.unwrap();
        db.update::<Board>(1)
            .set(|b| b.name(), "done")
            .await
            .unwrap();
        db.modify::<Card>(1, |card| card.n += 1).await.unwrap();
        let bulk = db.bulk().add(db.update::<Card>(2).inc(|c| c.n(), 5));
        assert_eq!(bulk.await.unwrap().matched, 1);
        db.wait_for_pending()
            .timeout(Duration::from_secs(30))
            .await
            .unwrap();
        let cards = db
            .find::<Card>()
            .sort(|c| c.id().asc())
            .all()
            .await
            .unwrap();
        assert_eq!(
            cards.iter().map(|card| card.n).collect::<Vec<_>>(),
            [2, 5, 0]
        );
        assert!(cards.iter().all(|card| card.board_name == "done"));
        assert_eq!(db.get::<Board>(1).await.unwrap().cards, 3);
        assert_eq!(db.find::<Card>().stream().count().await, 3);
        let limited = db.max_time(Duration::from_secs(60));
        assert_eq!(limited.find::<Card>().count().await.unwrap(), 3);

        let worker = db.spawn_worker(Duration::from_millis(1));
        while worker.progress().rounds < 2 {
            thread::sleep(Duration::from_millis(1));
        }
        drop(worker);
        db.delete::<Board>(1).await.unwrap();
        assert_eq!(db.find::<Card>().count().await.unwrap(), 0);
        assert!(db.check().await.unwrap().is_clean());
    })
    .await;
}

/// Conflicting transactions wait for each other. A dropped transaction is aborted.
pub async fn transactions_and_changes_work(fixture: Fixture) {
    let (url, backend) = (fixture.url().to_owned(), fixture.backend());
    if !backend.capabilities().transactions {
        return;
    }
    run_without_tokio(move || async move {
        let db = open(url, backend).await;
        db.insert(NewBoard {
            id: 1,
            name: "plans".into(),
        })
        .await
        .unwrap();
        db.insert(NewCard {
            id: 1,
            board: Ref::new(1),
            n: 0,
        })
        .await
        .unwrap();
        let mut changes = db.watch::<Card>().await.unwrap();
        let vote = || {
            db.transaction(async |tx| -> odm::Result<_> {
                let n = tx.get::<Card>(1).await?.n;
                tx.update::<Card>(1).set(|c| c.n(), n + 1).await?;
                Ok(())
            })
        };
        let votes = futures_util::future::join_all((0..8).map(|_| vote()));
        for vote in votes.await {
            vote.unwrap();
        }
        let stuck = db.transaction(async |tx| -> odm::Result<_> {
            tx.update::<Card>(1).set(|c| c.n(), 100).await?;
            std::future::pending::<()>().await;
            Ok(())
        });
        let error = stuck.timeout(Duration::from_millis(200)).await.unwrap_err();
        assert!(error.is_timeout(), "{error}");
        db.update::<Card>(1).inc(|c| c.n(), 1).await.unwrap();
        assert_eq!(db.get::<Card>(1).await.unwrap().n, 9);
        for _ in 0..9 {
            let change = changes.next().await.unwrap().unwrap();
            assert!(matches!(change.event, Event::Updated { .. }));
        }
    })
    .await;
}
