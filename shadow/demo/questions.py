"""Forty real prompts of different kinds, short enough for a small model on a small machine."""

QUESTIONS: tuple[str, ...] = (
    # facts
    "What is the capital of Portugal, and which river flows through it?",
    "How many minutes does light take from the sun to the earth?",
    "Who wrote the novel Frankenstein, and in which century?",
    "Name the four largest moons of Jupiter.",
    "What is the boiling point of water on top of a high mountain, compared with sea level?",
    "Which planet has the shortest year?",
    # explanations
    "Explain to a ten-year-old why the sky is blue.",
    "What does a database index do? Answer in two sentences.",
    "Why does bread rise in the oven?",
    "Explain the difference between weather and climate.",
    "What is the difference between a list and a tuple in Python?",
    "How does a bicycle stay upright while it moves?",
    # instructions
    "How do I boil an egg so that the yolk stays soft?",
    "Give me three steps to back up a laptop.",
    "How can I remove a coffee stain from a cotton shirt?",
    "What should I check first when my website is down?",
    # writing
    "Write a short thank-you note to a colleague who covered my shift.",
    "Write the opening sentence of a story that takes place in a lighthouse.",
    "Write a haiku about the first snow.",
    "Suggest five names for a small bakery near the sea.",
    "Write a polite reply that declines a meeting on Friday afternoon.",
    "Describe a quiet morning in a harbour town in two sentences.",
    # rewriting
    "Make this sentence friendlier: Send me the report today.",
    "Shorten this: Due to the fact that it was raining, we made the decision to stay at home.",
    "Turn this into a question: The train leaves at nine.",
    "Correct the grammar: He don't know where is the keys.",
    # translation
    "Translate into French: Good morning, where is the station?",
    "Translate into German: The library closes at six.",
    "Translate into Spanish: I would like two tickets, please.",
    # summaries and extraction
    "Summarise in one sentence: The council agreed to repair the bridge and to plant forty trees.",
    "List the cities in this text: We flew from Oslo to Vienna and took the night train to Venice.",
    "What is the date in this line? Invoice 1182, issued 14 March 2023, due within 30 days.",
    "Is this review positive or negative? The room was clean, but the music kept us up all night.",
    # numbers and logic
    "What is 17 plus 26?",
    "A shirt costs 40 euros and is 25 percent off. What do I pay?",
    "If all roses are flowers and some flowers fade quickly, do all roses fade quickly?",
    "I have three apples and buy two bags of four. How many apples do I have?",
    # code
    "Write a Python function that returns the largest number in a list.",
    "Write an SQL query that counts the orders of each customer.",
    "What does this shell command do? ls -la | wc -l",
)
