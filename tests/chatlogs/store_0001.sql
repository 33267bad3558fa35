-- A store of the first migration, as SQLite dumps it.
CREATE TABLE alembic_version (
	version_num VARCHAR(32) NOT NULL, 
	CONSTRAINT alembic_version_pkc PRIMARY KEY (version_num)
);
CREATE TABLE attempts (
	id INTEGER NOT NULL, 
	time FLOAT NOT NULL, 
	name VARCHAR(200) NOT NULL, 
	address VARCHAR(60) NOT NULL, 
	CONSTRAINT pk_attempts PRIMARY KEY (id)
);
CREATE TABLE audit (
	id INTEGER NOT NULL, 
	time FLOAT NOT NULL, 
	user VARCHAR(200), 
	action VARCHAR(60) NOT NULL, 
	object VARCHAR(300), 
	detail TEXT, 
	address VARCHAR(60), 
	CONSTRAINT pk_audit PRIMARY KEY (id)
);
CREATE TABLE calibrations (
	id INTEGER NOT NULL, 
	evaluator VARCHAR(100) NOT NULL, 
	version VARCHAR(100) NOT NULL, 
	made FLOAT NOT NULL, 
	user VARCHAR(200), 
	content TEXT NOT NULL, 
	active BOOLEAN NOT NULL, 
	CONSTRAINT pk_calibrations PRIMARY KEY (id)
);
CREATE TABLE contents (
	trace INTEGER NOT NULL, 
	"query" TEXT, 
	answer TEXT, 
	reference TEXT, 
	documents TEXT, 
	attributes TEXT, 
	sealed BLOB, 
	"key" VARCHAR(16), 
	CONSTRAINT pk_contents PRIMARY KEY (trace), 
	CONSTRAINT fk_contents_trace FOREIGN KEY(trace) REFERENCES traces (id) ON DELETE CASCADE
);
CREATE TABLE details (
	score INTEGER NOT NULL, 
	explanation TEXT, 
	evidence TEXT, 
	sealed BLOB, 
	"key" VARCHAR(16), 
	CONSTRAINT pk_details PRIMARY KEY (score), 
	CONSTRAINT fk_details_score FOREIGN KEY(score) REFERENCES scores (id) ON DELETE CASCADE
);
CREATE TABLE evaluators (
	name VARCHAR(100) NOT NULL, 
	version VARCHAR(100) NOT NULL, 
	threshold FLOAT, 
	direction VARCHAR(10) NOT NULL, 
	method VARCHAR(20) NOT NULL, 
	description TEXT, 
	first_seen FLOAT NOT NULL, 
	CONSTRAINT pk_evaluators PRIMARY KEY (name, version)
);
CREATE TABLE feedback (
	id INTEGER NOT NULL, 
	trace_id VARCHAR(32) NOT NULL, 
	thumbs INTEGER, 
	comment TEXT, 
	sealed BLOB, 
	"key" VARCHAR(16), 
	source VARCHAR(100), 
	created FLOAT NOT NULL, 
	CONSTRAINT pk_feedback PRIMARY KEY (id)
);
CREATE TABLE items (
	id INTEGER NOT NULL, 
	trace INTEGER NOT NULL, 
	slot INTEGER NOT NULL, 
	reason VARCHAR(40) NOT NULL, 
	probability FLOAT, 
	priority FLOAT NOT NULL, 
	state VARCHAR(20) NOT NULL, 
	created FLOAT NOT NULL, 
	assigned INTEGER, 
	locked_by INTEGER, 
	locked_until FLOAT, 
	skip_reason VARCHAR(200), 
	CONSTRAINT pk_items PRIMARY KEY (id), 
	CONSTRAINT fk_items_assigned FOREIGN KEY(assigned) REFERENCES users (id) ON DELETE SET NULL, 
	CONSTRAINT fk_items_locked_by FOREIGN KEY(locked_by) REFERENCES users (id) ON DELETE SET NULL, 
	CONSTRAINT fk_items_trace FOREIGN KEY(trace) REFERENCES traces (id) ON DELETE CASCADE, 
	CONSTRAINT uq_items_trace_slot UNIQUE (trace, slot)
);
CREATE TABLE reviews (
	id INTEGER NOT NULL, 
	trace INTEGER NOT NULL, 
	item INTEGER, 
	user INTEGER, 
	comment TEXT, 
	corrected TEXT, 
	sealed BLOB, 
	"key" VARCHAR(16), 
	source VARCHAR(100) NOT NULL, 
	seconds FLOAT, 
	created FLOAT NOT NULL, 
	CONSTRAINT pk_reviews PRIMARY KEY (id), 
	CONSTRAINT fk_reviews_item FOREIGN KEY(item) REFERENCES items (id) ON DELETE SET NULL, 
	CONSTRAINT fk_reviews_trace FOREIGN KEY(trace) REFERENCES traces (id) ON DELETE CASCADE, 
	CONSTRAINT fk_reviews_user FOREIGN KEY(user) REFERENCES users (id) ON DELETE SET NULL, 
	CONSTRAINT uq_reviews_trace_user UNIQUE (trace, user)
);
CREATE TABLE scores (
	id INTEGER NOT NULL, 
	trace INTEGER NOT NULL, 
	evaluator VARCHAR(100) NOT NULL, 
	version VARCHAR(100) NOT NULL, 
	value FLOAT, 
	label VARCHAR(40), 
	error VARCHAR(200), 
	method VARCHAR(20) NOT NULL, 
	cause VARCHAR(40), 
	failures VARCHAR(100), 
	probability FLOAT NOT NULL, 
	model VARCHAR(200), 
	input_tokens INTEGER NOT NULL, 
	output_tokens INTEGER NOT NULL, 
	cost FLOAT NOT NULL, 
	scored FLOAT NOT NULL, 
	CONSTRAINT pk_scores PRIMARY KEY (id), 
	CONSTRAINT fk_scores_trace FOREIGN KEY(trace) REFERENCES traces (id) ON DELETE CASCADE, 
	CONSTRAINT uq_scores_trace_evaluator_version UNIQUE (trace, evaluator, version)
);
CREATE TABLE sessions (
	hash VARCHAR(64) NOT NULL, 
	user INTEGER NOT NULL, 
	csrf VARCHAR(64) NOT NULL, 
	created FLOAT NOT NULL, 
	seen FLOAT NOT NULL, 
	expires FLOAT NOT NULL, 
	CONSTRAINT pk_sessions PRIMARY KEY (hash), 
	CONSTRAINT fk_sessions_user FOREIGN KEY(user) REFERENCES users (id) ON DELETE CASCADE
);
CREATE TABLE tokens (
	id INTEGER NOT NULL, 
	hash VARCHAR(64) NOT NULL, 
	name VARCHAR(200) NOT NULL, 
	user INTEGER NOT NULL, 
	scopes VARCHAR(200) NOT NULL, 
	created FLOAT NOT NULL, 
	expires FLOAT, 
	used FLOAT, 
	revoked BOOLEAN NOT NULL, 
	CONSTRAINT pk_tokens PRIMARY KEY (id), 
	CONSTRAINT fk_tokens_user FOREIGN KEY(user) REFERENCES users (id) ON DELETE CASCADE, 
	CONSTRAINT uq_tokens_hash UNIQUE (hash)
);
CREATE TABLE traces (
	id INTEGER NOT NULL, 
	trace_id VARCHAR(32) NOT NULL, 
	span_id VARCHAR(16) NOT NULL, 
	started FLOAT NOT NULL, 
	duration FLOAT NOT NULL, 
	app VARCHAR(200) NOT NULL, 
	env VARCHAR(200) NOT NULL, 
	model VARCHAR(200), 
	prompt_version VARCHAR(200), 
	session_id VARCHAR(200), 
	user_key VARCHAR(200), 
	error VARCHAR(200), 
	cause VARCHAR(40), 
	probability FLOAT NOT NULL, 
	lag FLOAT, 
	stored FLOAT NOT NULL, 
	size INTEGER NOT NULL, 
	thumbs INTEGER, 
	reviewed BOOLEAN NOT NULL, 
	CONSTRAINT pk_traces PRIMARY KEY (id), 
	CONSTRAINT uq_traces_trace_id_span_id UNIQUE (trace_id, span_id)
);
CREATE TABLE users (
	id INTEGER NOT NULL, 
	name VARCHAR(200) NOT NULL, 
	role VARCHAR(20) NOT NULL, 
	password VARCHAR(300), 
	subject VARCHAR(300), 
	disabled BOOLEAN NOT NULL, 
	created FLOAT NOT NULL, 
	CONSTRAINT pk_users PRIMARY KEY (id), 
	CONSTRAINT uq_users_name UNIQUE (name), 
	CONSTRAINT uq_users_subject UNIQUE (subject)
);
CREATE TABLE verdicts (
	review INTEGER NOT NULL, 
	evaluator VARCHAR(100) NOT NULL, 
	label VARCHAR(20) NOT NULL, 
	version VARCHAR(100), 
	value FLOAT, 
	CONSTRAINT pk_verdicts PRIMARY KEY (review, evaluator), 
	CONSTRAINT fk_verdicts_review FOREIGN KEY(review) REFERENCES reviews (id) ON DELETE CASCADE
);
CREATE TABLE views (
	id INTEGER NOT NULL, 
	user INTEGER NOT NULL, 
	name VARCHAR(100) NOT NULL, 
	"query" TEXT NOT NULL, 
	CONSTRAINT pk_views PRIMARY KEY (id), 
	CONSTRAINT fk_views_user FOREIGN KEY(user) REFERENCES users (id) ON DELETE CASCADE, 
	CONSTRAINT uq_views_user_name UNIQUE (user, name)
);
CREATE INDEX ix_attempts_time ON attempts (time);
CREATE INDEX ix_audit_time ON audit (time);
CREATE INDEX ix_feedback_trace_id ON feedback (trace_id);
CREATE INDEX ix_traces_app_started ON traces (app, started);
CREATE INDEX ix_traces_model_started ON traces (model, started);
CREATE INDEX ix_traces_started ON traces (started);
CREATE INDEX ix_traces_user_key ON traces (user_key);
CREATE INDEX ix_items_state_priority ON items (state, priority);
CREATE INDEX ix_scores_evaluator_label_trace ON scores (evaluator, label, trace);
CREATE INDEX ix_scores_evaluator_value_trace ON scores (evaluator, value, trace);
CREATE INDEX ix_reviews_created ON reviews (created);
INSERT INTO users ("id", "name", "role", "disabled", "created") VALUES (1, 'ada', 'reviewer', FALSE, 1760000000.0);
INSERT INTO traces ("id", "trace_id", "span_id", "started", "duration", "app", "env", "model", "prompt_version", "session_id", "user_key", "error", "cause", "probability", "lag", "stored", "size", "thumbs", "reviewed") VALUES (764047838412800, '00000000000000000000000000000001', '0000000000000001', 1760000000.0, 1.5, 'shop', 'prod', 'm1', NULL, 's', 'u1', NULL, NULL, 0.5, 0.1, 1760000060.0, 50, NULL, TRUE);
INSERT INTO contents ("trace", "query", "answer", "reference", "documents", "attributes", "sealed", "key") VALUES (764047838412800, 'How long is the pump covered?', '24 months.', NULL, '[{"id":"d0","content":"The pump is covered for 24 months.","score":0.5,"metadata":{}}]', '{"app":"shop"}', NULL, NULL);
INSERT INTO traces ("id", "trace_id", "span_id", "started", "duration", "app", "env", "model", "prompt_version", "session_id", "user_key", "error", "cause", "probability", "lag", "stored", "size", "thumbs", "reviewed") VALUES (764047842607105, '00000000000000000000000000000002', '0000000000000002', 1760000001.0, 1.5, 'shop', 'prod', 'm1', NULL, 's', 'u1', NULL, NULL, 0.5, 0.1, 1760000060.0, 50, NULL, FALSE);
INSERT INTO contents ("trace", "query", "answer", "reference", "documents", "attributes", "sealed", "key") VALUES (764047842607105, 'Does the pump run hot?', 'No.', NULL, '[{"id":"d0","content":"It does not.","score":0.5,"metadata":{}}]', '{"app":"shop"}', NULL, NULL);
INSERT INTO traces ("id", "trace_id", "span_id", "started", "duration", "app", "env", "model", "prompt_version", "session_id", "user_key", "error", "cause", "probability", "lag", "stored", "size", "thumbs", "reviewed") VALUES (764047846801410, '00000000000000000000000000000003', '0000000000000003', 1760000002.0, 1.5, 'shop', 'prod', 'm1', NULL, 's', 'u1', NULL, NULL, 0.5, 0.1, 1760000060.0, 50, NULL, FALSE);
INSERT INTO contents ("trace", "query", "answer", "reference", "documents", "attributes", "sealed", "key") VALUES (764047846801410, 'Where is my invoice?', 'In your mail.', NULL, '[{"id":"d0","content":"Mail.","score":0.5,"metadata":{}}]', '{"app":"shop"}', NULL, NULL);
INSERT INTO scores ("id", "trace", "evaluator", "version", "value", "label", "error", "method", "cause", "failures", "probability", "model", "input_tokens", "output_tokens", "cost", "scored") VALUES (1, 764047838412800, 'groundedness', '1', 0.25, 'fail', NULL, 'model', NULL, NULL, 0.5, NULL, 0, 0, 0.0, 1760000060.0);
INSERT INTO scores ("id", "trace", "evaluator", "version", "value", "label", "error", "method", "cause", "failures", "probability", "model", "input_tokens", "output_tokens", "cost", "scored") VALUES (2, 764047838412800, 'relevance', '1', 1.0, NULL, NULL, 'model', NULL, NULL, 0.5, NULL, 0, 0, 0.0, 1760000060.0);
INSERT INTO scores ("id", "trace", "evaluator", "version", "value", "label", "error", "method", "cause", "failures", "probability", "model", "input_tokens", "output_tokens", "cost", "scored") VALUES (3, 764047842607105, 'groundedness', '1', 0.75, 'pass', NULL, 'model', NULL, NULL, 0.5, NULL, 0, 0, 0.0, 1760000060.0);
INSERT INTO scores ("id", "trace", "evaluator", "version", "value", "label", "error", "method", "cause", "failures", "probability", "model", "input_tokens", "output_tokens", "cost", "scored") VALUES (4, 764047842607105, 'relevance', '1', 0.5, NULL, NULL, 'model', NULL, NULL, 0.5, NULL, 0, 0, 0.0, 1760000060.0);
INSERT INTO scores ("id", "trace", "evaluator", "version", "value", "label", "error", "method", "cause", "failures", "probability", "model", "input_tokens", "output_tokens", "cost", "scored") VALUES (5, 764047846801410, 'groundedness', '1', NULL, 'not_applicable', NULL, 'model', NULL, NULL, 0.5, NULL, 0, 0, 0.0, 1760000060.0);
INSERT INTO scores ("id", "trace", "evaluator", "version", "value", "label", "error", "method", "cause", "failures", "probability", "model", "input_tokens", "output_tokens", "cost", "scored") VALUES (6, 764047846801410, 'relevance', '1', -3.5, NULL, NULL, 'model', NULL, NULL, 0.5, NULL, 0, 0, 0.0, 1760000060.0);
INSERT INTO details ("score", "explanation", "evidence", "sealed", "key") VALUES (1, 'not in the text', NULL, NULL, NULL);
INSERT INTO evaluators ("name", "version", "threshold", "direction", "method", "description", "first_seen") VALUES ('groundedness', '1', 0.5, 'higher', 'model', NULL, 1760000000.0);
INSERT INTO evaluators ("name", "version", "threshold", "direction", "method", "description", "first_seen") VALUES ('relevance', '1', NULL, 'higher', 'model', NULL, 1760000000.0);
INSERT INTO feedback ("id", "trace_id", "thumbs", "comment", "sealed", "key", "source", "created") VALUES (1, '00000000000000000000000000000001', -1, 'wrong', NULL, NULL, 'app', 1760000000.0);
INSERT INTO items ("id", "trace", "slot", "reason", "probability", "priority", "state", "created", "assigned", "locked_by", "locked_until", "skip_reason") VALUES (1, 764047838412800, 0, 'random', 0.1, 1.0, 'done', 1760000000.0, NULL, NULL, NULL, NULL);
INSERT INTO reviews ("id", "trace", "item", "user", "comment", "corrected", "sealed", "key", "source", "seconds", "created") VALUES (1, 764047838412800, 1, 1, 'no', '24 months.', NULL, NULL, 'console', 12.0, 1760000000.0);
INSERT INTO verdicts ("review", "evaluator", "label", "version", "value") VALUES (1, 'groundedness', 'fail', '1', 0.25);
