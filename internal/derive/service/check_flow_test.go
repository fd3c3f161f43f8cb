package service_test

import (
	"testing"
	"time"

	"berth/internal/derive/service"
	"berth/internal/model/job"
)

func begins(as string, before int) job.ServiceCheck {
	return job.ServiceCheck{InitialStatus: as, SuccessBeforePassing: before}
}

func restarts(limit int, grace time.Duration) job.ServiceCheck {
	return job.ServiceCheck{CheckRestart: &job.CheckRestart{Limit: limit, Grace: grace}}
}

func limited(n int) *job.Service { return &job.Service{CheckRestart: &job.CheckRestart{Limit: n}} }

// TestWhatAChecksAnswersMean: given the answers of a check, one a second after the start of its task ("+" passed, "-"
// did not), then its status after each ("p"ending, "s"uccess, "f"ailure), and where its task is to be restarted ("!").
func TestWhatAChecksAnswersMean(t *testing.T) {
	for what, c := range map[string]struct {
		check   job.ServiceCheck
		of      job.Service
		answers string
		want    string
	}{
		"at once":              {answers: "+-+", want: "s f s "},
		"begins as passing":    {check: begins("passing", 2), answers: "+-+", want: "s f f "},
		"begins as critical":   {check: begins("critical", 2), answers: "++", want: "f s "},
		"two before passing":   {check: begins("", 2), answers: "+-++", want: "p f f s "},
		"restarts at a third":  {check: restarts(3, 0), answers: "--+----", want: "f f s f f f!f!"},
		"as its service says":  {of: *limited(1), answers: "+-", want: "s f!"},
		"not within the grace": {check: restarts(2, 3*time.Second), answers: "-----", want: "f f f f!f!"},
		"its own word counts": {
			check:   restarts(0, 0),
			of:      *limited(1),
			answers: "--",
			want:    "f f ",
		},
		"three before critical": {
			check:   job.ServiceCheck{FailuresBeforeCritical: 3},
			answers: "+--+---",
			want:    "s s s s s s f ",
		},
		"only what is a failure": {
			check:   job.ServiceCheck{FailuresBeforeCritical: 2, CheckRestart: restarts(2, 0).CheckRestart},
			answers: "---",
			want:    "p f f!",
		},
	} {
		started := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
		s, got := service.Begin(&c.check), ""
		for i, a := range c.answers {
			at := started.Add(time.Duration(i+1) * time.Second)
			answer := service.Answer{Passed: a == '+', At: at, Output: "o", StatusCode: 7}
			s = service.Next(s, &c.check, &c.of, answer, started)
			got += s.Status[:1]
			if service.Due(s, &c.check, &c.of) {
				got += "!"
			} else {
				got += " "
			}
			if s.Output != "o" || s.StatusCode != 7 || !s.At.Equal(at) {
				t.Errorf("%s: it keeps %+v", what, s)
			}
		}
		if got != c.want {
			t.Errorf("%s: %q becomes %q, not %q", what, c.answers, got, c.want)
		}
	}
}

func TestATaskThatDoesNotRunIsNotRestarted(t *testing.T) {
	c, of := &job.ServiceCheck{CheckRestart: &job.CheckRestart{Limit: 1}}, &job.Service{}
	s := service.Next(service.State{}, c, of, service.Answer{At: time.Now()}, time.Time{})
	if service.Due(s, c, of) {
		t.Error("a task that does not run is to be restarted")
	}
}

func TestModesOfChecks(t *testing.T) {
	for _, c := range []struct{ check, service, mode string }{
		{"", "", service.Healthiness},
		{"", job.OnUpdateIgnore, service.Readiness},
		{job.OnUpdateHealthy, job.OnUpdateIgnore, service.Healthiness},
		{job.OnUpdateIgnore, job.OnUpdateHealthy, service.Readiness},
		{job.OnUpdateIgnoreWarnings, "", service.Healthiness},
	} {
		got := service.ModeOf(&job.ServiceCheck{OnUpdate: c.check}, &job.Service{OnUpdate: c.service})
		if got != c.mode {
			t.Errorf("%q of %q: %s", c.check, c.service, got)
		}
	}
}

// TestAWarningOfConsul is a failure, but where the job ignores warnings; and what could not be heard changes nothing.
func TestAWarningOfConsul(t *testing.T) {
	begun := time.Unix(100, 0)
	warned := service.Answer{Warned: true, At: begun.Add(time.Minute)}
	for what, c := range map[string]struct {
		onUpdate string
		ignored  bool
		status   string
		counted  int
	}{
		"a failure":            {job.OnUpdateHealthy, false, service.Failure, 1},
		"ignored for restarts": {job.OnUpdateHealthy, true, service.Failure, 0},
		"ignored for health":   {job.OnUpdateIgnoreWarnings, false, service.Success, 0},
	} {
		of := &job.Service{OnUpdate: c.onUpdate}
		check := &job.ServiceCheck{CheckRestart: &job.CheckRestart{Limit: 3, IgnoreWarnings: c.ignored}}
		s := service.Next(service.Begin(check), check, of, warned, begun)
		if s.Status != c.status || s.Counted != c.counted {
			t.Errorf("%s: %+v", what, s)
		}
		if after := service.Next(s, check, of, service.Answer{Unknown: true}, begun); after != s {
			t.Errorf("%s: %+v became %+v", what, s, after)
		}
	}
}
