package server

import (
	"context"
	"os"
	"slices"
	"strings"
	"testing"

	"berth/internal/base/fault"
	"berth/internal/base/ids"
	"berth/internal/base/redact"
	"berth/internal/model/trust"
	"berth/internal/server/keyring"
	"berth/internal/server/permissions"
	"berth/internal/wire"
)

// answeredToAll are the methods that everybody may call: those that tell nothing of what anybody has, and lists over
// all namespaces, which show what the caller may see.
var answeredToAll = []string{
	"ACL.Bootstrap", "Alloc.List", "Deployment.List", "Eval.List", "Job.List", "Keyring.SigningKeys", "Namespace.List",
	"NodePool.List", "Person.Allowed", "Scaling.Policies", "Server.List", "Service.List", "System.Search",
	"System.Status", "Trust.Certify", "Variable.List", "Volume.List",
}

// atServers are those of them that are answered to who comes by the surface of a server's own agent, and not by a node.
var atServers = []string{"ACL.Bootstrap"}

func without(all, those []string) []string {
	return slices.DeleteFunc(slices.Clone(all), func(m string) bool { return slices.Contains(those, m) })
}

// toAnyToken are those of them that are answered whatever token is shown.
var toAnyToken = []string{"ACL.Bootstrap", "Keyring.SigningKeys", "Server.List", "System.Status", "Trust.Certify"}

func callEmpty(ctx context.Context, conn wire.Conn, method string) error {
	_, err := wire.Unary[wire.Empty, wire.Empty](method).Call(ctx, conn, &wire.Empty{})
	return err
}

func methodName(path string) string {
	return strings.ReplaceAll(strings.TrimPrefix(path, "/berth."), "/", ".")
}

// TestEveryMethodSaysWhatAPersonNeeds: the table has an entry for every method that there is, and no other.
func TestEveryMethodSaysWhatAPersonNeeds(t *testing.T) {
	s := New(Config{DataDir: t.TempDir()})
	ring, err := keyring.Create(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	all, _ := s.methods(s.components(ring)) // one without an entry panics
	var answered []string
	for _, m := range all.Methods() {
		answered = append(answered, methodName(m))
	}
	text, err := os.ReadFile("permissions/testdata/persons.txt") // which has every entry of the table
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		name, _, _ := strings.Cut(line, ":")
		name, _, _ = strings.Cut(name, " ")
		if name = strings.TrimSpace(name); name != "" && name != "#" && !slices.Contains(answered, name) {
			t.Errorf("no server answers %s", name)
		}
	}
}

// TestWhoHasNoRightsGetsNowhere: a call that is marked as a person's is judged, whichever method it is of and whatever
// is not right with it, before anything else is done for it. Who comes with the certificate of a node is no local user.
func TestWhoHasNoRightsGetsNowhere(t *testing.T) {
	_, here, byOthers := serves(t, Config{}, trust.Principal{Role: trust.Node, ID: ids.New()})
	there := byOthers[0]
	local := wire.Person{Local: true, Name: "uid 0"}
	for _, c := range []struct {
		what   string
		conn   wire.Conn
		person wire.Person
		open   []string
	}{
		{"nobody", here, wire.Person{}, answeredToAll},
		{"an unknown token", here, wire.Person{Token: redact.New("guess")}, toAnyToken},
		{"nobody, by a node", there, wire.Person{}, without(answeredToAll, atServers)},
		{"an unknown token, by a node", there, wire.Person{Token: redact.New("guess")}, without(toAnyToken, atServers)},
		{"a local user, by a node", there, local, without(answeredToAll, atServers)},
	} {
		for _, path := range methodsOf(t) {
			name := methodName(path)
			err := callEmpty(wire.For(t.Context(), c.person), c.conn, name)
			refused := fault.Has(err, fault.Denied) && strings.HasPrefix(err.Error(), "Permission denied")
			if refused == slices.Contains(c.open, name) {
				t.Errorf("%s calls %s: %v", c.what, name, err)
			}
		}
	}
	for _, path := range methodsOf(t) { // what is refused to a local user is refused to everybody
		err := callEmpty(wire.For(t.Context(), local), here, methodName(path))
		refused := fault.Has(err, fault.Denied) && strings.HasPrefix(err.Error(), "Permission denied")
		if refused != permissions.ForNobody(path) {
			t.Errorf("a local user calls %s: %v", methodName(path), err)
		}
	}
}

// methodsOf are all methods that a server answers.
func methodsOf(t *testing.T) []string {
	t.Helper()
	ring, err := keyring.Create(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	s := New(Config{DataDir: t.TempDir()})
	all, _ := s.methods(s.components(ring))
	return all.Methods()
}
