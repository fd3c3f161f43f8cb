package ask

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"berth/internal/derive/service"
)

// Run runs the command of a check in its task, and returns its exit code. What it prints goes to out.
type Run func(ctx context.Context, c *service.Check, out io.Writer) (code int, err error)

// warns is the exit code by which a script says to Consul that all is not well, and nothing has failed either (Consul's
// documentation, Script checks).
const warns = 1

// Script asks by a command, for no longer than the check's timeout: it passes when the command ends with code 0.
func Script(ctx context.Context, c *service.Check, run Run) service.Answer {
	ctx, cancel := context.WithTimeout(ctx, c.Of.Timeout)
	defer cancel()
	out := &kept{}
	code, err := run(ctx, c, out)
	printed := string(out.text)
	var a service.Answer
	switch {
	case errors.Is(ctx.Err(), context.DeadlineExceeded):
		a.Output = fmt.Sprintf("it did not end within the timeout of %s, and was killed\n%s", c.Of.Timeout, printed)
	case err != nil:
		// Consul keeps what it heard last: an agent that begins has yet to find the task, and what never runs expires.
		a.Output, a.Unknown = err.Error(), c.Consul != nil
	case code != 0:
		a.Output, a.Warned = fmt.Sprintf("it ended with code %d\n%s", code, printed), code == warns && c.Consul != nil
	default:
		a.Passed, a.Output = true, printed
	}
	a.Output = shown(a.Output)
	a.At = time.Now()
	return a
}

// kept keeps the beginning of what is written to it.
type kept struct{ text []byte }

func (k *kept) Write(p []byte) (int, error) {
	k.text = append(k.text, p[:min(len(p), MaxOutput+1-len(k.text))]...)
	return len(p), nil
}
