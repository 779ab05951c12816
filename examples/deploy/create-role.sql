-- A role that is no superuser, so that row security holds for it, and a database that belongs to it.
-- Run by a superuser with psql 15 or newer, once; the password comes from the environment.
\getenv password ROLE_PASSWORD
CREATE ROLE parley LOGIN NOSUPERUSER NOBYPASSRLS PASSWORD :'password';
CREATE DATABASE parley OWNER parley ENCODING 'UTF8' TEMPLATE template0;
-- So that `parley status` can tell in which state the standbys are.
GRANT pg_read_all_stats TO parley;
