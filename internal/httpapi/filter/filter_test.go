package filter_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"berth/internal/httpapi/filter"
)

type thing struct{ N int }

func all(t *thing) any { return t }

func TestMistakesAreReported(t *testing.T) {
	for expr, want := range map[string]string{
		"N ==":         "failed to create result paginator: failed to read filter expression",
		"Nothing == 1": "failed to read result page: error finding value in datum",
	} {
		_, err := filter.Of(t.Context(), expr, []*thing{{1}}, all)
		if err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%q: %v", expr, err)
		}
	}
}

// Given expressions that would take the parser long, then they are refused as what cannot be read, with the bound that
// they pass; what is within quotes counts as text.
func TestExpressionsAreBounded(t *testing.T) {
	nested := func(n int, s string) string { return strings.Repeat("(", n) + s + strings.Repeat(")", n) }
	loops := strings.Repeat("any L as v { ", 3) + "v == 1" + strings.Repeat(" } ", 3)
	for expr, want := range map[string]string{
		nested(6, "N == 1"):                      "more than 5 parentheses within each other",
		"((((":                                   "opened and not closed",
		")N == 1(":                               "closed that was not opened",
		"N == `\"` or " + nested(6, "N == `\"`"): "more than 5 parentheses within each other",
		"N == \"`\" or " + nested(6, "N == \"`\""): "more than 5 parentheses within each other",
		loops: "more than 2 of any and all",
		"N == 1" + strings.Repeat(" and N == 1", 400): "it has 4406 bytes, and may have 4096",
	} {
		_, err := filter.Of(t.Context(), expr, []*thing{{1}}, all)
		if err == nil || !strings.Contains(err.Error(), "failed to read filter expression: ") ||
			!strings.Contains(err.Error(), want) {
			t.Errorf("%.20s…: %v, want %q", expr, err, want)
		}
	}
	for _, expr := range []string{
		nested(5, "N == 1"), "N == 1" + strings.Repeat(" and (N == 1)", 300), `"((((((" != "))" or N == 1`,
		"`((((((` != `))` or N == 1",
	} {
		_, err := filter.Of(t.Context(), expr, []*thing{{1}}, all)
		if err != nil && strings.Contains(err.Error(), "parenthes") {
			t.Errorf("%.20s…: %v", expr, err)
		}
	}
}

// Given a client that has hung up, then nothing more is looked at.
func TestNobodyIsFilteredForWhoHasGone(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if shown, err := filter.Of(ctx, "N == 2", []*thing{{1}, {2}}, all); !errors.Is(err, context.Canceled) {
		t.Errorf("%v, %v", shown, err)
	}
}

func TestWhatTheExpressionIsTrueOfIsLeft(t *testing.T) {
	for expr, want := range map[string]int{"N == 2": 1, "N != 3": 2, "": 2} {
		shown, err := filter.Of(t.Context(), expr, []*thing{{1}, {2}}, all)
		if err != nil || len(shown) != want || shown[len(shown)-1].N != 2 {
			t.Errorf("%q left %v, %v", expr, shown, err)
		}
	}
}
