package kit

import (
	"errors"
	"fmt"
	"net/http"
	"strings"

	"berth/api"
	"berth/internal/base/fault"

	"github.com/spf13/cobra"
)

// Exit codes with a meaning of their own.
const (
	ExitError    = 1
	ExitUnplaced = 2   // job run: not everything could be placed
	ExitMissing  = 3   // deleting what does not exist
	ExitUnknown  = 127 // no such command
)

// StopAtArgument is the annotation of commands whose flags end at the first argument: what follows is somebody else's.
const StopAtArgument = "stop-at-argument"

// Exit ends a command with a code. Err may be nil: then all has been said.
type Exit struct {
	Code int
	Err  error
}

func (e *Exit) Error() string {
	if e.Err == nil {
		return fmt.Sprintf("exit code %d", e.Code)
	}
	return e.Err.Error()
}

// Unwrap returns what went wrong.
func (e *Exit) Unwrap() error { return e.Err }

// ExitCode tells which code an error means, and whether there is something to say about it.
func ExitCode(err error) (code int, speak bool) {
	var exit *Exit
	switch {
	case err == nil:
		return 0, false
	case errors.As(err, &exit):
		return exit.Code, exit.Err != nil
	}
	return ExitError, true
}

// Doing says what was tried when an error came: `stop job "db"`. A nil error stays nil.
func Doing(err error, op, kind, name string) error {
	subject := kind
	if name != "" {
		subject = fmt.Sprintf("%s %q", kind, name)
	}
	var status *api.StatusError
	if errors.As(err, &status) {
		text := OneSentence(status.Error())
		if strings.HasPrefix(text, op+" "+kind+" ") {
			return &said{text, err} // the agent has said it already
		}
		return fault.Wrap(&said{text, err}, statusKind(status.Code), op, subject)
	}
	return fault.Note(err, op, subject)
}

// said is an error with the words that people read of it.
type said struct {
	text string
	err  error
}

func (s *said) Error() string { return s.text }
func (s *said) Unwrap() error { return s.err }

func statusKind(code int) fault.Kind {
	for _, k := range fault.Kinds() {
		if k != fault.Internal && k.HTTPStatus() == code {
			return k
		}
	}
	if code == http.StatusBadRequest {
		return fault.Invalid
	}
	return fault.Internal
}

// OneSentence makes one line of an agent's text. Lists such as "2 errors occurred:" with a star before each become their
// items.
func OneSentence(text string) string {
	var items []string
	for line := range strings.SplitSeq(text, "\n") {
		line = strings.TrimSpace(line)
		item, starred := strings.CutPrefix(line, "* ")
		heading := strings.HasSuffix(line, " error occurred:") || strings.HasSuffix(line, " errors occurred:") ||
			strings.HasSuffix(line, " warning:") || strings.HasSuffix(line, " warnings:")
		if line == "" || !starred && heading {
			continue
		}
		items = append(items, strings.TrimRight(item, ".; "))
	}
	return Clean(strings.Join(items, "; "))
}

// Usage is an error in how a command was called.
func Usage(cmd *cobra.Command, format string, args ...any) error {
	return fault.WithHint(fault.New(fault.Invalid, "", "", fmt.Sprintf(format, args...)), `see "`+cmd.CommandPath()+` -help"`)
}

// Args makes cobra accept exactly the named arguments; a name in brackets is optional, one that ends in dots may come
// again.
func Args(names ...string) cobra.PositionalArgs {
	least, most := 0, len(names)
	for _, n := range names {
		if !strings.HasPrefix(n, "[") {
			least++
		}
		if strings.Contains(n, "...") {
			most = 1 << 20
		}
	}
	return func(cmd *cobra.Command, args []string) error {
		switch {
		case len(args) < least:
			return Usage(cmd, "%s needs %s", cmd.CommandPath(), wantedArgs(names))
		case len(args) > most && most == 0:
			return Usage(cmd, "%s takes no arguments, but there is %q", cmd.CommandPath(), args[0])
		case len(args) > most:
			return Usage(cmd, "%s takes %s and no more, but there is %q too", cmd.CommandPath(), wantedArgs(names), args[most])
		}
		return nil
	}
}

func wantedArgs(names []string) string {
	quoted := make([]string, len(names))
	for i, n := range names {
		quoted[i] = n
		if !strings.HasPrefix(n, "[") {
			quoted[i] = "<" + strings.TrimSuffix(n, "...") + ">" + strings.Repeat("...", strings.Count(n, "..."))
		}
	}
	return strings.Join(quoted, " ")
}
