package httpapi_test

import (
	"net/http"
	"strings"
	"testing"
)

// Given a dispatch whose payload is not base64, when it is sent, then the answer says what a payload is written as.
func TestAPayloadThatIsNoBase64IsRefusedByItsForm(t *testing.T) {
	r := newRig(t)
	a := r.try("PUT", "/v1/job/any/dispatch", map[string]any{"Payload": "%%%"})
	if a.status != http.StatusBadRequest || !strings.Contains(string(a.body), "is not base64") {
		t.Errorf("answered with %d: %s", a.status, a.body)
	}
}
