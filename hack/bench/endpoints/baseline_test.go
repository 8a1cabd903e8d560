package main

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestBaseline_AnswersAtEachEndpoint(t *testing.T) {
	a := answers{
		Check: httpAnswer{Status: 429, Header: http.Header{"Content-Type": {"application/json"}}, Body: []byte("{}\n")},
		Auth:  httpAnswer{Status: 403, Header: http.Header{"Retry-After": {"1"}}, Body: []byte("no")},
	}
	at := httptest.NewServer(baselineHandler(a))
	defer at.Close()
	where := &server{http: at.Listener.Addr().String()}
	check, errCheck := checkRequest(t.Context(), where, deniedDomain, 1)
	auth, errAuth := authRequest(t.Context(), where, deniedDomain, 1)
	if errCheck != nil || errAuth != nil {
		t.Fatal(errCheck, errAuth)
	}
	for request, want := range map[*http.Request]httpAnswer{check: a.Check, auth: a.Auth} {
		got, err := roundTrip(http.DefaultTransport, request)
		if err != nil {
			t.Fatal(err)
		}
		for name := range got.Header {
			if want.Header.Get(name) == "" {
				got.Header.Del(name) // Date and the like
			}
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", request.URL.Path, diff)
		}
	}
}
