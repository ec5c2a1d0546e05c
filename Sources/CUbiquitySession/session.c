#define SQLITE_ENABLE_SESSION 1
#define SQLITE_ENABLE_PREUPDATE_HOOK 1
#include <sqlite3.h>

#include "CUbiquitySession.h"

int CUbiquitySession_start(struct sqlite3 *connection, struct CUbiquitySession **session) {
    return sqlite3session_create(connection, "main", (sqlite3_session **)session);
}

int CUbiquitySession_attach(struct CUbiquitySession *session, const char *table) {
    return sqlite3session_attach((sqlite3_session *)session, table);
}

int CUbiquitySession_isEmpty(struct CUbiquitySession *session) {
    return sqlite3session_isempty((sqlite3_session *)session);
}

int CUbiquitySession_changeset(struct CUbiquitySession *session, int *length, void **bytes) {
    return sqlite3session_changeset((sqlite3_session *)session, length, bytes);
}

void CUbiquitySession_free(void *bytes) { sqlite3_free(bytes); }

void CUbiquitySession_end(struct CUbiquitySession *session) { sqlite3session_delete((sqlite3_session *)session); }
