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

// Given the socket of an agent without a server, when its user and root send requests, then they are who their token
// says, and nobody in particular without one; others are refused as ever.
func TestASocketOfANodeAloneGivesNoRights(t *testing.T) {
	guard := Socket{UID: 1000, Lists: true}
	for shown, refused := range map[string]bool{"": false, "secret": false, strings.Repeat("x", maxToken+1): true} {
		for _, peer := range []int{0, 1000, 2000} {
			r := httptest.NewRequest(http.MethodGet, "/v1/jobs", nil)
			r.Header.Set("X-Nomad-Token", shown)
			who, err := guard.Admit(r.WithContext(context.WithValue(t.Context(), peerKey{}, peer)))
			switch {
			case refused || peer == 2000:
				if !fault.Has(err, fault.Denied) {
					t.Errorf("user %d: %v, want a denial", peer, err)
				}
			case err != nil || who.Local || who.Token.Reveal() != shown:
				t.Errorf("user %d, who shows %q, is %+v (%v)", peer, shown, who, err)
			}
		}
	}
}

// Given an agent without a server, when its root asks for the first token of the cluster, then it is refused.
func TestRootOfANodeAloneDoesNotMakeTheFirstToken(t *testing.T) {
	r := httptest.NewRequest(http.MethodPut, "/v1/acl/bootstrap", nil)
	r = r.WithContext(context.WithValue(t.Context(), peerKey{}, 0))
	if _, err := (Socket{Lists: true}).Admit(r); !fault.Has(err, fault.Denied) ||
		!strings.Contains(err.Error(), "berth acl bootstrap") {
		t.Errorf("by the socket of a node alone: %v", err)
	}
	if _, err := (Socket{}).Admit(r); err != nil {
		t.Errorf("by the socket of a server: %v", err)
	}
}
