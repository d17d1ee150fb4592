"""Steps evaluated with some rows of a table in its place.

Workers of parameter servers, and the replicas of a `CentralStorageStrategy`, so compute without a
table that is not there.
"""
