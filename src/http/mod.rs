//! HTTP: every URL in `route`, who may use it in `auth`, the way of a request in `app`; one file
//! of handlers for each part of the contract.

pub mod account_page;
pub mod accounts;
pub mod app;
pub mod auth;
pub mod body;
pub mod events;
pub mod events_page;
pub mod jobs;
mod jobs_page;
mod lab_page;
pub mod links;
pub mod links_page;
pub mod list;
pub mod meters;
pub mod metrics;
pub mod openapi;
pub mod operations;
pub mod overview;
pub mod pages;
pub mod reconcile_page;
pub mod redirect;
pub mod reply;
pub mod request;
pub mod route;
pub mod session;
pub mod signin;
pub mod standin;
pub mod usage;
