package echo_test

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"berth/internal/base/redact"
	"berth/internal/port/csi/echo"
)

// Given any context that a plugin answers, when its secrets are hidden, then no value that is looked for is left in it,
// and the next call gets it back as it was.
func TestAContextComesBackAsItWasAndShowsNothing(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		word := rapid.StringMatching(`[ab:$}{]{1,10}`)
		values := rapid.MapOfN(rapid.StringMatching(`[a-z._-]{1,4}`), word, 0, 4).Draw(t, "secrets")
		secrets := redact.MapOf(values)
		part := rapid.OneOf(word, rapid.Just("${secret:"), rapid.Just("${secret:}"), rapid.Just("${secret:x}"),
			rapid.Just("}"))
		if len(values) > 0 {
			part = rapid.OneOf(part, rapid.SampledFrom(slices.Sorted(maps.Values(values))))
		}
		text := rapid.Custom(func(t *rapid.T) string {
			glue := rapid.SampledFrom([]string{"", " "}).Draw(t, "glue")
			return strings.Join(rapid.SliceOfN(part, 0, 5).Draw(t, "parts"), glue)
		})
		said := map[string]string{"login": text.Draw(t, "value")}
		hidden := echo.Hide(secrets, said)
		for _, v := range values {
			if len(v) >= 8 && !strings.Contains("${secret:", v) && strings.Contains(plain(hidden["login"]), v) {
				t.Errorf("%q shows %q", hidden, v)
			}
		}
		back, missing := echo.Reveal(secrets, hidden)
		if !maps.Equal(back, said) || len(missing) > 0 {
			t.Errorf("%q was hidden as %q and came back as %q, without %q", said, hidden, back, missing)
		}
	})
}

// plain is what stands between the references.
func plain(text string) string {
	var out strings.Builder
	for {
		before, rest, found := strings.Cut(text, "${secret:")
		out.WriteString(before)
		if !found {
			return out.String()
		}
		out.WriteString("\x00")
		_, text, _ = strings.Cut(rest, "}")
	}
}

// Given values of several lengths, when a plugin says them, then long ones are found anywhere, short ones as words, and
// what nobody could keep to themselves is left alone.
func TestWhichValuesAreFound(t *testing.T) {
	secrets := redact.MapOf(map[string]string{"user": "admin", "password": "correct-horse", "flag": "on"})
	got := echo.Hide(secrets, map[string]string{"login": "admin:correct-horse",
		"url": "nfs://xcorrect-horsex/administrator", "mode": "on"})
	want := map[string]string{"login": "${secret:user}:${secret:password}",
		"url": "nfs://x${secret:password}x/administrator", "mode": "on"}
	if !maps.Equal(got, want) {
		t.Errorf("%q", got)
	}
}

// Given a context that refers to a secret which is not there, when it is to be handed back, then the secret is named.
func TestASecretThatIsGoneIsNamed(t *testing.T) {
	context := map[string]string{"a": "${secret:key} ${secret:gone}", "b": "${secret:gone}"}
	_, missing := echo.Reveal(redact.MapOf(map[string]string{"key": "v"}), context)
	if !slices.Equal(missing, []string{"gone"}) {
		t.Errorf("missing: %q", missing)
	}
}

// A plugin may hand back a value as a name too.
func TestNamesOfAContextAreHidden(t *testing.T) {
	secrets := redact.MapOf(map[string]string{"password": "correct-horse"})
	said := map[string]string{"token/correct-horse": "yes"}
	hidden := echo.Hide(secrets, said)
	if !maps.Equal(hidden, map[string]string{"token/${secret:password}": "yes"}) {
		t.Errorf("%q", hidden)
	}
	if back, missing := echo.Reveal(secrets, hidden); !maps.Equal(back, said) || len(missing) > 0 {
		t.Errorf("it came back as %q, without %q", back, missing)
	}
}

// What a plugin says of what it was sent is masked, also where it quotes it; with more secrets than are remembered, one
// is forgotten for each, not all.
func TestWhatWasSentIsMasked(t *testing.T) {
	var sent echo.Sent
	sent.Remember(redact.MapOf(map[string]string{"password": `a"bcdefgh`}))
	if got := sent.Scrub(`refused: "a\"bcdefgh" and a"bcdefgh`); strings.Contains(got, "bcdefgh") {
		t.Errorf("%q", got)
	}
	var many echo.Sent
	for i := range 1000 {
		many.Remember(redact.MapOf(map[string]string{"password": fmt.Sprintf("secret-%09d", i)}))
	}
	masked := 0
	for i := range 1000 {
		if !strings.Contains(many.Scrub(fmt.Sprintf("secret-%09d", i)), "secret") {
			masked++
		}
	}
	if masked < 250 || masked == 1000 {
		t.Errorf("%d of 1000 are masked", masked)
	}
}
