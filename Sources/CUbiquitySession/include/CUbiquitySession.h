/// The part of SQLite's session extension that the synced database needs. The system's header declares it only under
/// two macros, which GRDB's module does not define.
#ifndef CUBIQUITY_SESSION_H
#define CUBIQUITY_SESSION_H

struct sqlite3;
struct CUbiquitySession;

/// Starts to record changes of the connection. Returns a result code of SQLite; on SQLITE_OK, `*session` must be passed
/// to `CUbiquitySession_end`.
int CUbiquitySession_start(struct sqlite3 *connection, struct CUbiquitySession **session);
/// Adds a table to the recorded ones.
int CUbiquitySession_attach(struct CUbiquitySession *session, const char *table);
/// Returns 1 if nothing was recorded.
int CUbiquitySession_isEmpty(struct CUbiquitySession *session);
/// Writes the recorded changes as a changeset to memory; `CUbiquitySession_free` releases it.
int CUbiquitySession_changeset(struct CUbiquitySession *session, int *length, void **bytes);
void CUbiquitySession_free(void *bytes);
void CUbiquitySession_end(struct CUbiquitySession *session);

#endif
