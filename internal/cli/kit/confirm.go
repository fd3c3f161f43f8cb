package kit

import (
	"bufio"
	"strings"

	"berth/internal/base/fault"
)

// Agreement is the flag of every command that asks before it acts: with it, the person has agreed already.
type Agreement struct{ given bool }

// AddTo gives the command the flag, by its name and by its letter.
func (a *Agreement) AddTo(c *Command) {
	c.Flags().BoolVar(&a.given, "yes", false, "do not ask")
	c.Flags().Letters("y=yes")
}

// Confirm asks a person who has not agreed yet. Where nobody can be asked, or the answer is not y, the error says what
// to do instead.
func (e *Env) Confirm(agreed Agreement, question, instead string) error {
	if agreed.given {
		return nil
	}
	if _, ok := e.InTerminal(); !ok {
		return Fail(fault.Invalid, instead, "%s", "nobody is there to be asked: "+question)
	}
	e.Err.Printf("%s [y/N] ", question)
	answer, err := bufio.NewReader(e.In).ReadString('\n')
	if err != nil || strings.TrimSpace(answer) != "y" {
		return fault.New(fault.Canceled, "", "", "nothing was done: the answer was not y")
	}
	return nil
}
