// The join of the benchmark with Mongoose: reads a category from each input line, and prints the number of parts in the products.
import { createInterface } from "node:readline";
import mongoose from "mongoose";

const { Schema, model, connect } = mongoose;
const Part = model("Part", new Schema({ _id: Number, name: String, price: Number }, { collection: "parts" }));
const Product = model(
  "Product",
  new Schema(
    {
      _id: Number,
      name: String,
      category: Number,
      price: Number,
      description: String,
      origin: new Schema({ city: String, country: String }, { _id: false }),
      parts: [{ type: Number, ref: Part }],
    },
    { collection: "products" },
  ),
);

await connect(process.argv[2], { autoIndex: false });
console.log("ready");
for await (const line of createInterface({ input: process.stdin })) {
  const products = await Product.find({ category: Number(line) }).populate("parts");
  console.log(products.reduce((sum, product) => sum + product.parts.length, 0));
}
await mongoose.disconnect();
