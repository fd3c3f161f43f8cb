package workload_test

import (
	"crypto/ed25519"
	"encoding/base64"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"berth/internal/base/redact"
	"berth/internal/model/alloc"
	"berth/internal/model/job"
	"berth/internal/model/workload"
)

var now = time.Unix(1_800_000_000, 0)

func key(id string, fill byte) workload.Key {
	return workload.Key{ID: id, Private: ed25519.NewKeyFromSeed([]byte(strings.Repeat(string(rune(fill)), 32)))}
}

func sign(t *testing.T, k workload.Key, change func(*workload.Statement)) redact.Secret {
	t.Helper()
	s := &workload.Statement{
		Alloc:    &alloc.Alloc{ID: "a1", Namespace: "shop", Job: "web", TaskGroup: "front"},
		Task:     "app",
		Identity: &job.WorkloadIdentity{Name: "x", Audience: []string{"others", workload.Audience}, TTL: time.Hour},
		Region:   "global",
		Issuer:   "https://berth.example.com",
		Now:      now,
	}
	if change != nil {
		change(s)
	}
	token, err := k.Sign(s)
	if err != nil {
		t.Fatal(err)
	}
	return token
}

// TestWhatIsBelieved: what one of the keys has signed, while it is good, and for Berth.
func TestWhatIsBelieved(t *testing.T) {
	own, other := key("k", 'a'), key("k", 'b')
	public := func(id string) ed25519.PublicKey {
		if id == own.ID {
			return own.Private.Public().(ed25519.PublicKey)
		}
		return nil
	}
	parts := strings.Split(sign(t, own, nil).Reveal(), ".")
	encoded := func(text string) string { return base64.RawURLEncoding.EncodeToString([]byte(text)) }
	for _, c := range []struct {
		name     string
		token    redact.Secret
		at       time.Time
		believed bool
	}{
		{"a good one", sign(t, own, nil), now.Add(time.Minute), true},
		{"in its last second", sign(t, own, nil), now.Add(time.Hour - time.Second), true},
		{"at its end", sign(t, own, nil), now.Add(time.Hour), false},
		{"by a clock that is a little behind", sign(t, own, nil), now.Add(-workload.Leeway), true},
		{"before its time", sign(t, own, nil), now.Add(-workload.Leeway - time.Second), false},
		{
			"without an end",
			sign(t, own, func(s *workload.Statement) { s.Identity.TTL = 0 }),
			now.Add(10_000 * time.Hour),
			true,
		},
		{
			"for others",
			sign(t, own, func(s *workload.Statement) { s.Identity.Audience = []string{"others"} }),
			now,
			false,
		},
		{"for nobody", sign(t, own, func(s *workload.Statement) { s.Identity.Audience = nil }), now, false},
		{"signed by another key", sign(t, other, nil), now, false},
		{"by a key that is not known", sign(t, key("gone", 'a'), nil), now, false},
		{"with what was said changed", redact.New(parts[0] + "." + encoded(`{}`) + "." + parts[2]), now, false},
		{
			"signed with nothing",
			redact.New(encoded(`{"alg":"none","kid":"k"}`) + "." + parts[1] + "." + parts[2]),
			now,
			false,
		},
		{
			"signed with the public key as a secret",
			redact.New(encoded(`{"alg":"HS256","kid":"k"}`) + "." + parts[1] + "." + parts[2]),
			now,
			false,
		},
		{"no identity", redact.New("f9a7fb2b-1c5c-4a9e-8e3f-000000000001"), now, false},
		{"one that is too long", redact.New(parts[0] + "." + strings.Repeat("a", 1<<16) + "." + parts[2]), now, false},
	} {
		claims, err := workload.Read(c.token, public, c.at)
		if (err == nil) != c.believed {
			t.Errorf("%s: %v", c.name, err)
		}
		if c.believed && (claims.Namespace != "shop" || claims.Job != "web" || claims.Alloc != "a1" ||
			claims.Task != "app") {
			t.Errorf("%s: it says %+v", c.name, claims)
		}
	}
}

// TestWhatAnIdentitySays is by the names that others read.
func TestWhatAnIdentitySays(t *testing.T) {
	token := sign(t, key("k", 'a'), nil)
	payload, err := base64.RawURLEncoding.DecodeString(strings.Split(token.Reveal(), ".")[1])
	if err != nil {
		t.Fatal(err)
	}
	var said map[string]any
	if err := json.Unmarshal(payload, &said); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]any{
		"iss":                 "https://berth.example.com",
		"sub":                 "global:shop:web:front:app:x",
		"iat":                 float64(now.Unix()),
		"nbf":                 float64(now.Unix()),
		"exp":                 float64(now.Add(time.Hour).Unix()),
		"nomad_namespace":     "shop",
		"nomad_job_id":        "web",
		"nomad_task":          "app",
		"nomad_allocation_id": "a1",
	} {
		if said[name] != want {
			t.Errorf("%s is %v, want %v", name, said[name], want)
		}
	}
	if id, _ := said["jti"].(string); len(id) != 36 || len(said) != 11 {
		t.Errorf("it says %s", payload)
	}
	if sign(t, key("k", 'a'), nil).Reveal() == token.Reveal() {
		t.Error("two identities are one")
	}
}
