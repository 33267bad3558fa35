"""An existing LangChain application, and the lines that add ragtrace to it."""

from langchain_core.documents import Document
from langchain_core.embeddings import DeterministicFakeEmbedding
from langchain_core.language_models import FakeListChatModel
from langchain_core.output_parsers import StrOutputParser
from langchain_core.prompts import ChatPromptTemplate
from langchain_core.runnables import RunnablePassthrough
from langchain_core.vectorstores import InMemoryVectorStore

# --- added: spans with scores go to a file; name an endpoint instead with otlp_endpoint="http://localhost:4318" ---
import ragtrace

ragtrace.init(app="pump-help", spans_file="ragtrace-spans.jsonl")
# ------------------------------------------------------------------------------------------------------------------

MANUAL = [
    "The warranty of the pump covers parts and labour for 24 months from delivery.",
    "The filter must be replaced every six months.",
    "Keep the inlet pressure below four bar.",
]
store = InMemoryVectorStore.from_documents(
    [Document(page_content=text) for text in MANUAL], DeterministicFakeEmbedding(size=32)
)
prompt = ChatPromptTemplate.from_template("Answer from the context only.\n{context}\n\nQuestion: {question}")
model = FakeListChatModel(responses=["The pump is covered for 24 months from delivery. Delivery is free on Mondays."])
chain = {"context": store.as_retriever(), "question": RunnablePassthrough()} | prompt | model | StrOutputParser()

if __name__ == "__main__":
    print(chain.invoke("How long is the pump covered?", config={"metadata": {"session_id": "s-1", "user_id": "ada"}}))
