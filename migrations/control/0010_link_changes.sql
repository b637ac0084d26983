-- Which links were changed since an isolate last looked: one small read tells it of all it remembers.

-- Grows over all links with each change of one; 0 is a link as it was made.
alter table link add column changed integer not null default 0;
create index link_changed on link (changed) where changed > 0;
