package kit

import (
	"errors"
	"fmt"
	"net/http"
	"strings"

	"berth/api"
	"berth/internal/base/fault"
)

// Exit codes with a meaning of their own.
const (
	ExitError    = 1
	ExitUnplaced = 2   // job run: not everything could be placed
	ExitUnknown  = 127 // no such command
)

// Exit ends a command with a code. Err may be nil: then everything has been reported.
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

// Fail is an error of a kind in the words that people read, with the way out of it; a hint may be empty.
func Fail(kind fault.Kind, hint, format string, args ...any) error {
	return fault.WithHint(fault.New(kind, "", "", fmt.Sprintf(format, args...)), hint)
}

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
		if rest, ok := strings.CutPrefix(text, op+" "+kind); ok && rest != "" && strings.Contains(" :", rest[:1]) {
			return &worded{text, err} // the agent has it already
		}
		return fault.Wrap(&worded{text, err}, statusKind(status.Code), op, subject)
	}
	return fault.Note(err, op, subject)
}

// worded is an error with the words that people read of it.
type worded struct {
	text string
	err  error
}

func (w *worded) Error() string { return w.text }
func (w *worded) Unwrap() error { return w.err }

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

// OneSentence makes one line of an agent's text. Lists such as "2 errors occurred:" with a star before each become
// their items.
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
