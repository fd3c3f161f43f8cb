package partition

import (
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"

	"berth/internal/base/fault"
	"berth/internal/base/ids"
)

// Bounds of what one object says: characters of its description, entries and bytes of its meta, names in its lists.
const (
	maxDescription = 256
	maxMeta        = 100
	maxMetaBytes   = 16 << 10
	maxListed      = 100
)

// common finds what is wrong with what both kinds of objects have.
func common(name, description string, meta map[string]string) (problems []string) {
	if err := ids.ValidName(name); err != nil {
		problems = append(problems, "its name: "+err.Error())
	}
	if n := utf8.RuneCountInString(description); n > maxDescription {
		problems = append(problems,
			fmt.Sprintf("its description has %d characters, at most %d are allowed; shorten it", n, maxDescription))
	}
	bytes, unnamed := 0, false
	for k, v := range meta { // any order: it is a sum
		bytes += len(k) + len(v)
		unnamed = unnamed || k == ""
	}
	if unnamed {
		problems = append(problems, "its meta has an entry without a key; name it")
	}
	if len(meta) > maxMeta || bytes > maxMetaBytes {
		problems = append(problems, fmt.Sprintf("its meta has %d entries of %d bytes together, at most %d of %d are "+
			"allowed; leave some out", len(meta), bytes, maxMeta, maxMetaBytes))
	}
	return problems
}

// listed finds what is wrong with a list of names; each checks one, nil: it may be any text.
func listed(what string, names []string, each func(string) error) (problems []string) {
	if len(names) > maxListed {
		problems = append(problems, fmt.Sprintf("its %s has %d names, at most %d are allowed; leave some out", what,
			len(names), maxListed))
	}
	for _, name := range names {
		err := error(nil)
		switch {
		case name == "":
			err = errors.New("it is empty; leave it out")
		case len(name) > maxDescription:
			err = fmt.Errorf("it has %d bytes, at most %d are allowed", len(name), maxDescription)
		case each != nil:
			err = each(name)
		}
		if err != nil {
			problems = append(problems, fmt.Sprintf("its %s has %q: %s", what, name, err))
		}
	}
	return problems
}

// pattern checks a pattern of names: what a name may have, and stars.
func pattern(text string) error {
	if plain := strings.ReplaceAll(text, "*", ""); plain != "" {
		return ids.ValidName("x" + plain) // the first character of a name may come from a star
	}
	return nil
}

// refuse makes one error of what is wrong with an object, nil of nothing.
func refuse(kind, name string, problems []string) error {
	if len(problems) == 0 {
		return nil
	}
	return fault.New(fault.Invalid, "accept", fmt.Sprintf("%s %q", kind, name), strings.Join(problems, "\n"))
}
