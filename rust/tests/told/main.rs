//! What is wrong with bytes is told by its name and place, and what is rare is read all the same.

mod csv;
mod examples;
mod images;
mod records;
mod tar;
