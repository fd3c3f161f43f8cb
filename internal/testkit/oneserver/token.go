package oneserver

import (
	"testing"
	"time"

	"berth/internal/base/ids"
	"berth/internal/base/redact"
	"berth/internal/model/acl"
	"berth/internal/server"
	"berth/internal/server/fsm/acls"
)

// ExpiredToken makes a token that was good for everything, and is no longer when it is returned: no client can have one
// made that lives so shortly.
func ExpiredToken(t testing.TB, s *server.Server) redact.Secret {
	t.Helper()
	secret := redact.New(ids.New())
	_, _, err := s.Propose(t.Context(), &acls.TokenPut{
		New:        true,
		Accessor:   ids.New(),
		SecretHash: acl.HashSecret(secret),
		Type:       acl.ManagementToken,
		Lives:      time.Nanosecond,
		Longest:    time.Hour,
	})
	if err != nil {
		t.Fatal(err)
	}
	return secret
}
