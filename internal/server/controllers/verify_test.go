package controllers

import (
	"errors"
	"slices"
	"strconv"
	"strings"
	"testing"
)

func TestAListIsReadToItsEnd(t *testing.T) {
	var asked []string
	err := pages(func(token string) (string, error) {
		asked = append(asked, token)
		if len(asked) == 3 {
			return "", nil
		}
		return strconv.Itoa(len(asked)), nil
	})
	if err != nil || !slices.Equal(asked, []string{"", "1", "2"}) {
		t.Errorf("asked %q, %v", asked, err)
	}
}

// A list that was not read to its end proves no absence.
func TestAListThatBreaksOffOrGoesInCirclesProvesNothing(t *testing.T) {
	broken := errors.New("the connection is lost")
	if err := pages(func(token string) (string, error) {
		if token == "" {
			return "next", nil
		}
		return "", broken
	}); !errors.Is(err, broken) {
		t.Errorf("got %v", err)
	}
	n := 0
	err := pages(func(token string) (string, error) {
		n++
		return map[string]string{"": "a", "a": "b", "b": "a"}[token], nil
	})
	if err == nil || !strings.Contains(err.Error(), `"a" came twice`) || n != 3 {
		t.Errorf("%d pages, %v", n, err)
	}
}
