package access

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"berth/internal/base/fault"
)

// Given the socket of an agent that is not root, when requests come from peers, then its user's and root's pass, and
// anybody else's is refused with both users and the way out.
func TestASocketIsForItsUserAndRoot(t *testing.T) {
	for peer, admitted := range map[int]bool{0: true, 1000: true, 2000: false, 999: false, 65534: false, -1: false} {
		ctx := context.WithValue(t.Context(), peerKey{}, peer)
		_, err := Socket{UID: 1000}.Admit(httptest.NewRequest(http.MethodGet, "/v1/jobs", nil).WithContext(ctx))
		switch {
		case admitted && err != nil:
			t.Errorf("user %d: %v", peer, err)
		case !admitted && !fault.Has(err, fault.Denied):
			t.Errorf("user %d: %v, want a denial", peer, err)
		case !admitted &&
			(!strings.Contains(err.Error(), "agent's user (1000)") || !strings.Contains(err.Error(), "sudo")):
			t.Errorf("user %d: the refusal is %v", peer, err)
		}
	}
}
