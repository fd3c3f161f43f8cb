package permissions

import (
	"bytes"
	"crypto/ed25519"
	"encoding/base64"
	"strings"
	"testing"
	"time"

	"berth/internal/base/ids"
	"berth/internal/base/redact"
	"berth/internal/model/alloc"
	"berth/internal/model/job"
	"berth/internal/model/workload"
	"berth/internal/wire"
)

// signing is the cluster's key.
var signing = ed25519.NewKeyFromSeed(bytes.Repeat([]byte{1}, ed25519.SeedSize))

// identityOf is what a task shows. They differ from that of task by one thing alone, each.
func identityOf(name string) redact.Secret {
	key := workload.Key{ID: "k", Private: signing}
	s := &workload.Statement{
		Alloc:    &alloc.Alloc{ID: "appa", Namespace: "app", Job: "a", TaskGroup: "g"},
		Task:     "t",
		Identity: &job.WorkloadIdentity{Name: "api", Audience: []string{workload.Audience}, TTL: time.Hour},
		Region:   "global",
		Now:      now.Add(-time.Minute),
	}
	switch name {
	case "task+read":
		s.Alloc = &alloc.Alloc{ID: "appab", Namespace: "app", Job: "ab", TaskGroup: "g"}
	case "task-expired":
		s.Now = now.Add(-time.Hour)
	case "task-ended", "task-gone":
		s.Alloc.ID = ids.Alloc(strings.TrimPrefix(name, "task-"))
	case "task-forged":
		key.Private = ed25519.NewKeyFromSeed(bytes.Repeat([]byte{2}, ed25519.SeedSize))
	}
	token, err := key.Sign(s)
	if err != nil {
		panic(err)
	}
	if name == "task-unsigned" {
		parts := strings.Split(token.Reveal(), ".")
		none := base64.RawURLEncoding.EncodeToString([]byte(`{"alg":"none","kid":"k","typ":"JWT"}`))
		return redact.New(none + "." + parts[1] + "." + parts[2])
	}
	return token
}

// Given somebody without a rule, then requests that write are refused unread; a task has what is its own, and may ask,
// also where asking is a PUT, as a search is.
func TestATaskIsNotPowerless(t *testing.T) {
	s := world(t)
	for name, want := range map[string]bool{"anonymous": true, "task": false, "task+read": false, "local": false} {
		ask := &wire.PersonAllowedRequest{}
		who, err := Judge(s, nil, personNamed(name), wire.PersonAllowed.Name(), ask, false, now)
		if err != nil || who.Powerless() != want {
			t.Errorf("%s: %+v, %v", name, who, err)
		}
	}
}
