"""Train the toxicity head and print its figures: python training/train_heads.py --data FOLDER

toxicity_sets.py says what FOLDER/train holds; FOLDER/dev (openai_moderation, surge_toxicity, hatecheck, xstest_prompts)
is measured on, and calibrates. Needs scikit-learn and torch. Takes about twenty minutes of one core.
"""

import toxicity
from sets import OUT, data_parser

from ragtrace.evaluate.models.embedding import OnnxEmbedder

if __name__ == "__main__":
    toxicity.train(data_parser(__doc__).parse_args().data, OnnxEmbedder(), OUT)
