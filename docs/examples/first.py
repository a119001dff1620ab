"""The first example of the README. A test runs it."""

import didact

# Data whose truth is known: the marked words decide the label, nothing else does.
data = didact.load_data("planted/sentiment")
row = data["test"][0]
print(row.texts[0], "->", data.classes[row.label], [row.text_of(span) for span in row.rationale])

# A teacher: two layers, from scratch, in about half a minute. Any Hugging Face model does as well.
teacher = didact.train_teacher(data, "native(layers=2, width=64, heads=4)")
print(teacher.record["metrics"])

# What it says about rows it never saw, and why.
maps = didact.explain(teacher, data["test"][:3], "integrated_gradients")
print(maps.predictions, maps.top(2))
maps.show()  # heat maps; maps.to_html("maps.html") for a page, maps.save("maps.parquet") to keep them

# Any Python function is a teacher too.
polite = didact.teacher_from_function(
    lambda texts: [[0.1, 0.9] if "please" in text else [0.9, 0.1] for text in texts], ["rude", "polite"]
)
print(polite.predict(data["test"][:3].rows).labels)
