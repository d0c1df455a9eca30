// An ordinary session of Mongoose. Prints one line for each step, which `run` compares with the lines of a real server.
'use strict';

const mongoose = require('mongoose');

const show = (step, value) => console.log(step, JSON.stringify(value));

const Author = mongoose.model('Author', new mongoose.Schema({
  _id: Number, name: { type: String, unique: true }, born: Date
}, { versionKey: '__v' }));
const Book = mongoose.model('Book', new mongoose.Schema({
  _id: Number, title: String, author: { type: Number, ref: 'Author' }, tags: [String],
  reviews: [new mongoose.Schema({ stars: Number }, { _id: false })], sold: { type: Map, of: Number }
}).index({ title: 1, author: -1 }));

async function main() {
  await mongoose.connect(process.argv[2], { dbName: 'odm_clients_mongoose', serverSelectionTimeoutMS: 10000 });
  await mongoose.connection.dropDatabase();
  await Promise.all([Author.init(), Book.init()]);
  await Promise.all([Author.syncIndexes(), Book.syncIndexes()]);
  await Author.create([{ _id: 1, name: 'Ada', born: new Date(0) }, { _id: 2, name: 'Grace' }]);
  await Book.insertMany([1, 2, 3].map(n => ({
    _id: n, title: `book ${n}`, author: n % 2 + 1, tags: ['a', `t${n}`], reviews: [{ stars: n }], sold: { de: n }
  })));
  show('populate', await Book.find().sort('-_id').populate('author').lean());
  await Author.create({ _id: 3, name: 'Ada' }).catch(error => show('duplicate', [error.code, error.keyPattern, error.keyValue]));
  const book = await Book.findById(1);
  book.tags.push('new');
  book.reviews[0].stars = 5;
  book.sold.set('fr', 7);
  await book.save();
  show('saved', await Book.findById(1).lean());
  const stale = await Book.findById(1);
  await Book.updateOne({ _id: 1 }, { $pull: { tags: 'a' }, $inc: { __v: 1 } });
  stale.tags.set(0, 'stale');
  await stale.save().catch(error => show('version', error.name));
  show('update', await Book.updateMany({ tags: 'a' }, { $addToSet: { tags: 'more' } }).then(result => result.modifiedCount));
  show('modify', await Book.findOneAndUpdate({ _id: 2 }, { title: 'changed' }, { new: true, lean: true }));
  show('count', await Book.countDocuments({ 'reviews.stars': { $gte: 3 } }));
  show('distinct', await Book.distinct('tags'));
  show('aggregate', await Book.aggregate([{ $unwind: '$tags' }, { $sortByCount: '$tags' }, { $sort: { count: -1, _id: 1 } }]));
  let ids = [];
  for await (const one of Book.find().sort('_id').cursor({ batchSize: 1 })) ids.push(one._id);
  show('cursor', ids);
  await mongoose.connection.transaction(async session => {
    await Author.deleteOne({ _id: 2 }, { session });
    await Book.deleteMany({ author: 2 }, { session });
  });
  show('transaction', [await Author.countDocuments(), await Book.countDocuments()]);
  await mongoose.connection.transaction(async session => {
    await Author.deleteMany({}, { session });
    throw new Error('roll back');
  }).catch(error => show('rolled back', error.message));
  show('authors', await Author.find().lean());
  const stream = Author.watch();
  const changed = new Promise(resolve => stream.once('change', resolve));
  await new Promise(resolve => setTimeout(resolve, 300));
  await Author.create({ _id: 9, name: 'Edsger' });
  const { operationType, documentKey, ns } = await changed;
  show('change', { operationType, documentKey, ns });
  await stream.close();
  show('indexes', await Book.listIndexes());
  await mongoose.connection.dropDatabase();
  await mongoose.disconnect();
}

main().catch(failure => {
  console.error(failure);
  process.exitCode = 1;
});
