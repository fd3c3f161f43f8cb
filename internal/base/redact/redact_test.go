package redact_test

import (
	"bytes"
	"encoding"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"

	"github.com/fxamacker/cbor/v2"

	"berth/internal/base/redact"
)

const canary = "hunter2-canary"

// holder has a secret wherever a struct can have one.
type holder struct {
	Name   string
	Shown  redact.Secret
	hidden redact.Secret
	Ptr    *redact.Secret
	ptr    *redact.Secret
	Any    any
	Map    redact.Map
	hmap   redact.Map
	List   []redact.Secret
	nested struct{ inner struct{ s redact.Secret } }
}

func filled() holder {
	s := redact.New(canary)
	h := holder{
		Name:   "db",
		Shown:  s,
		hidden: s,
		Ptr:    &s,
		ptr:    &s,
		Any:    s,
		Map:    redact.Map{"password": s},
		hmap:   redact.Map{"password": s},
		List:   []redact.Secret{s},
	}
	h.nested.inner.s = s
	return h
}

// shows reports whether text holds the canary in plain, hex, quoted or as numbers.
func shows(text string) bool {
	var numbers []string
	for _, b := range []byte(canary[:6]) {
		numbers = append(numbers, fmt.Sprint(b))
	}
	lower := strings.ToLower(text)
	for _, form := range []string{canary, hex.EncodeToString([]byte(canary)), strings.Join(numbers, " "),
		strings.Join(numbers, ", ")} {
		if strings.Contains(lower, form) {
			return true
		}
	}
	return false
}

func TestTheDetectorSeesAnUnprotectedValue(t *testing.T) {
	for _, verb := range []string{"%v", "%q", "%x", "%X", "%s", "%#v", "%d"} {
		var v any = struct{ s string }{canary}
		if verb == "%d" {
			v = []byte(canary)
		}
		if text := fmt.Sprintf(verb, v); !shows(text) {
			t.Errorf("the detector misses a value printed with %s: %s", verb, text)
		}
	}
}

func TestNoVerbShowsASecret(t *testing.T) {
	h := filled()
	subjects := map[string]any{"secret": h.Shown, "pointer": &h.Shown, "map": h.Map, "struct": h,
		"pointer to struct": &h, "slice": h.List, "slice of any": []any{h, &h}}
	for name, subject := range subjects {
		for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%+q", "%#q", "%x", "%X", "% x", "%#x", "%d",
			"%o", "%b", "%c", "%U", "%t", "%e", "%p", "%T", "%w", "%20v", "%-20.30s", "%!"} {
			if text := fmt.Sprintf(verb, subject); shows(text) {
				t.Errorf("%s of a %s shows it: %s", verb, name, text)
			}
		}
		if text := fmt.Sprint(subject) + fmt.Sprintln(subject); shows(text) {
			t.Errorf("Print of a %s shows it: %s", name, text)
		}
	}
}

func TestASecretIsSeenToBeThere(t *testing.T) {
	s := redact.New(canary)
	for _, text := range []string{fmt.Sprint(s), fmt.Sprintf("%x", s), fmt.Sprintf("%#v", s), s.String()} {
		if text != redact.Mask {
			t.Errorf("a secret prints as %q, want the mask", text)
		}
	}
	if text := fmt.Sprint(redact.Secret{}); text != "" {
		t.Errorf("an empty secret prints as %q: a reader would believe that one is set", text)
	}
	if !strings.Contains(s.GoString(), redact.Mask) || shows(s.GoString()) {
		t.Errorf("GoString is %q", s.GoString())
	}
}

func TestNoEncodingShowsASecret(t *testing.T) {
	h := filled()
	j, err := json.Marshal(h)
	if err != nil {
		t.Fatal(err)
	}
	if shows(string(j)) || !strings.Contains(string(j), `"Shown":"***"`) ||
		!strings.Contains(string(j), `{"password":"***"}`) {
		t.Errorf("JSON: %s", j)
	}
	if c, err := cbor.Marshal(h); err == nil || bytes.Contains(c, []byte(canary)) {
		t.Errorf("CBOR: %q, %v; nothing that is stored or logged by the servers may hold a secret", c, err)
	}
	text, err := encoding.TextMarshaler(h.Shown).MarshalText()
	if err != nil || shows(string(text)) {
		t.Errorf("text form: %s, %v", text, err)
	}
}

func TestNoLogShowsASecret(t *testing.T) {
	h := filled()
	for name, handler := range map[string]func(*bytes.Buffer) slog.Handler{
		"text": func(b *bytes.Buffer) slog.Handler { return slog.NewTextHandler(b, nil) },
		"json": func(b *bytes.Buffer) slog.Handler { return slog.NewJSONHandler(b, nil) },
	} {
		var out bytes.Buffer
		log := slog.New(handler(&out))
		log.With("with", h.Shown).WithGroup("g").Info("told", "secret", h.Shown, "pointer", h.Ptr, "map", h.Map,
			"struct", h, "structs", []any{&h}, slog.Group("inner", "s", h.Shown))
		log.Info(fmt.Sprintf("formatted %+v", h), "error",
			fmt.Errorf("login with %v: %w", h.Shown, errors.New("refused")))
		if shows(out.String()) {
			t.Errorf("the %s log shows it: %s", name, out.String())
		}
		if !strings.Contains(out.String(), redact.Mask) {
			t.Errorf("the %s log lacks the mask, so it tested nothing: %s", name, out.String())
		}
	}
}

func TestRevealGivesTheContentAndOnlyACopyOfTheMap(t *testing.T) {
	if got := redact.New(canary).Reveal(); got != canary {
		t.Errorf("Reveal gives %q", got)
	}
	m := redact.MapOf(map[string]string{"user": "admin", "password": canary})
	plain := m.Reveal()
	if len(plain) != 2 || plain["password"] != canary {
		t.Errorf("Reveal gives %v", plain)
	}
	plain["password"] = "changed"
	if m["password"].Reveal() != canary {
		t.Error("a change of the revealed map changed the secret")
	}
	if redact.MapOf(nil) != nil || (redact.Map{}).Reveal() != nil {
		t.Error("nothing must stay nil: an empty map on the wire is not an unset field")
	}
}

func TestSecretsCompareByContent(t *testing.T) {
	a, b := redact.New("x"), redact.New("x")
	if !a.Equal(b) || a.Equal(redact.New("y")) || a.Equal(redact.Secret{}) || !redact.New("").Equal(redact.Secret{}) {
		t.Error("Equal does not compare contents")
	}
	if !redact.New("").Empty() || redact.New("x").Empty() {
		t.Error("Empty is wrong")
	}
}

func TestScrubRemovesEchoedValuesLongestFirst(t *testing.T) {
	m := redact.MapOf(map[string]string{"short": "pass", "long": "passphrase", "empty": ""})
	got := m.Scrub("login with passphrase failed, pass refused")
	if got != "login with *** failed, *** refused" {
		t.Errorf("scrubbed text: %q", got)
	}
	if got := (redact.Map)(nil).Scrub("text"); got != "text" {
		t.Errorf("without secrets the text became %q", got)
	}
}
