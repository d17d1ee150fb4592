-- The list of jobs as version 1 has written it (drumline at the commit a91232d1).
BEGIN TRANSACTION;
CREATE TABLE attempts(
      job integer not null references jobs(id), number integer not null, handle text not null,
      started real not null, ended real, code integer, reason text not null default '',
      primary key(job, number)) without rowid;
INSERT INTO "attempts" VALUES(1,1,'1/attempt-1',1.7957848983224213123e+09,1.79578489832265686984e+09,3,'worker:0 exited with code 3');
INSERT INTO "attempts" VALUES(1,2,'1/attempt-2',1.79578489832280516627e+09,1.79578489833107781412e+09,0,'');
INSERT INTO "attempts" VALUES(4,1,'4/attempt-1',1.79578489833317160606e+09,NULL,NULL,'');
CREATE TABLE events(
      number integer primary key autoincrement, job integer not null references jobs(id),
      time real not null, kind text not null, text text not null);
INSERT INTO "events" VALUES(1,1,1.79578489832230186462e+09,'submitted','2 workers (4 cpus, 16 GiB of memory each)');
INSERT INTO "events" VALUES(2,1,1.79578489832244372371e+09,'starting','attempt 1');
INSERT INTO "events" VALUES(3,1,1.79578489832256770137e+09,'running','');
INSERT INTO "events" VALUES(4,1,1.79578489832269215585e+09,'restart','1 of 1: worker:0 exited with code 3');
INSERT INTO "events" VALUES(5,1,1.79578489832281374934e+09,'starting','attempt 2');
INSERT INTO "events" VALUES(6,1,1.79578489833111310004e+09,'succeeded','');
INSERT INTO "events" VALUES(7,2,1.79578489833187198636e+09,'submitted','1 worker (1 cpu)');
INSERT INTO "events" VALUES(8,2,1.79578489833212327957e+09,'cancelled','cancelled before it had started');
INSERT INTO "events" VALUES(9,4,1.79578489833305525785e+09,'submitted','1 worker (1 cpu)');
INSERT INTO "events" VALUES(10,4,1.79578489833318328855e+09,'starting','attempt 1');
INSERT INTO "events" VALUES(11,5,1.79578489833381938932e+09,'submitted','1 worker (1 cpu)');
CREATE TABLE jobs(
      id integer primary key autoincrement, name text not null, spec text not null,
      state text not null, reason text not null default '', priority integer not null,
      submitted real not null, ended real, restarts integer not null default 0, stop text);
INSERT INTO "jobs" VALUES(1,'digits','{"name": "digits", "command": ["python", "train.py"], "code": {"folder": "/code", "git": null, "commit": null, "user": null, "token": null, "at": ""}, "roles": {"workers": {"count": 2, "cpus": 4.0, "memory": 17179869184, "gpus": 0, "image": ""}}, "env": {}, "secrets": [], "priority": 7, "restarts": 1, "timeout": null, "engine": "local", "log_limit": null, "hang_after": null, "data": []}','succeeded','',7,1.79578489832207870485e+09,1.79578489833110117911e+09,1,NULL);
INSERT INTO "jobs" VALUES(2,'faces','{"name": "faces", "command": ["python", "train.py"], "code": {"folder": "/code", "git": null, "commit": null, "user": null, "token": null, "at": ""}, "roles": {"workers": {"count": 1, "cpus": 1.0, "memory": 0, "gpus": 0, "image": ""}}, "env": {"A": "\u00fc"}, "secrets": [], "priority": 5, "restarts": 0, "timeout": null, "engine": "local", "log_limit": null, "hang_after": null, "data": []}','cancelled','cancelled before it had started',5,1.79578489833167505261e+09,1.79578489833211493494e+09,0,NULL);
INSERT INTO "jobs" VALUES(4,'digits','{"name": "digits", "command": ["python", "train.py"], "code": {"folder": "/code", "git": null, "commit": null, "user": null, "token": null, "at": ""}, "roles": {"workers": {"count": 1, "cpus": 1.0, "memory": 0, "gpus": 0, "image": ""}}, "env": {}, "secrets": ["TOKEN"], "priority": 5, "restarts": 0, "timeout": null, "engine": "local", "log_limit": null, "hang_after": null, "data": []}','starting','',5,1.79578489833290100103e+09,NULL,0,'preempt');
INSERT INTO "jobs" VALUES(5,'waits','{"name": "waits", "command": ["python", "train.py"], "code": {"folder": "/code", "git": null, "commit": null, "user": null, "token": null, "at": ""}, "roles": {"workers": {"count": 1, "cpus": 1.0, "memory": 0, "gpus": 0, "image": ""}}, "env": {}, "secrets": [], "priority": 5, "restarts": 0, "timeout": null, "engine": "local", "log_limit": null, "hang_after": null, "data": []}','queued','waits for 1 cpu; 0 of 2 free',5,1.7957848983336064815e+09,NULL,0,NULL);
INSERT INTO "jobs" VALUES(6,'faces','{"name": "faces", "command": ["python", "train.py"], "code": {"folder": "/code", "git": null, "commit": null, "user": null, "token": null, "at": ""}, "roles": {"workers": {"count": 1, "cpus": 1.0, "memory": 0, "gpus": 0, "image": ""}}, "env": {"A": "\u00fc"}, "secrets": [], "priority": 5, "restarts": 0, "timeout": null, "engine": "local", "log_limit": null, "hang_after": null, "data": []}','submitting','',5,1.79578489833405613895e+09,NULL,0,NULL);
CREATE INDEX jobs_by_state on jobs(state, priority desc, id);
CREATE INDEX events_by_job on events(job, number);
DELETE FROM "sqlite_sequence";
INSERT INTO "sqlite_sequence" VALUES('jobs',6);
INSERT INTO "sqlite_sequence" VALUES('events',11);
COMMIT;
pragma user_version=1;
