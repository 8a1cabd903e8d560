package admin

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/pprof" // registers handlers in http.DefaultServeMux, which no server of a limiter uses
	"strconv"

	"github.com/weir-dev/weir/limiter/admin/adminapi"
	"github.com/weir-dev/weir/limiter/decisionlog"
	"github.com/weir-dev/weir/limiter/reply"
)

// maxBody is the size of the largest request, in bytes: an AdmissionReview with a large object.
const maxBody = 8 << 20

// Options of the admin endpoint. All fields are required, except Published and Redis.
type Options struct {
	Explainer *Explainer
	Counters  *Counters
	Bypasses  *Bypasses
	Totals    *Totals
	Decisions *decisionlog.Log
	// Level of the log, which callers can change.
	Level *slog.LevelVar
	Log   *slog.Logger
	// Published has the published rule sets; nil for a limiter whose rules come from elsewhere.
	Published RuleStore
	// Redis checks the Redis of the limiter; nil without Redis.
	Redis RedisChecker
}

// RedisChecker finds out about a Redis, over new connections.
type RedisChecker interface {
	Check(ctx context.Context) adminapi.RedisReport
}

// NewHandler returns the handler for /admin/v1/. It does not authenticate callers: see [Authenticated].
func NewHandler(o Options) http.Handler {
	h := &handler{o}
	mux := http.NewServeMux()
	mux.HandleFunc("POST /admin/v1/explain", h.explain)
	mux.HandleFunc("GET /admin/v1/rules", h.rules)
	mux.HandleFunc("GET /admin/v1/rules/published", h.storedRules)
	mux.HandleFunc("GET /admin/v1/counters", h.counters)
	mux.HandleFunc("GET /admin/v1/top", h.top)
	mux.HandleFunc("GET /admin/v1/denials", h.denials)
	mux.HandleFunc("POST /admin/v1/counters/reset", h.reset)
	mux.HandleFunc("GET /admin/v1/bypasses", h.bypasses)
	mux.HandleFunc("POST /admin/v1/bypasses", h.createBypass)
	mux.HandleFunc("POST /admin/v1/bypasses/end", h.endBypass)
	mux.HandleFunc("GET /admin/v1/redis", h.redis)
	mux.HandleFunc("GET /admin/v1/log-level", h.level)
	mux.HandleFunc("PUT /admin/v1/log-level", h.setLevel)
	mux.HandleFunc("GET /admin/v1/pprof/{profile}", profile)
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		reply.NewProblem(http.StatusNotFound, "", fmt.Sprintf("%s %s does not exist", quote(r.Method), quote(r.URL.Path))).Write(w)
	})
	return mux
}

type handler struct{ Options }

func (h *handler) explain(w http.ResponseWriter, r *http.Request) {
	body, bad := readBody(r)
	if bad != nil {
		bad.Write(w)
		return
	}
	x, bad := h.Explainer.Explain(r.Context(), body, r.URL.Query().Get("all") == "true")
	if bad != nil {
		bad.Write(w)
		return
	}
	write(w, x)
}

func (h *handler) rules(w http.ResponseWriter, _ *http.Request) {
	index := h.Explainer.Engine.Index()
	if index == nil {
		reply.NewProblem(http.StatusServiceUnavailable, "", "no rules are loaded yet").Write(w)
		return
	}
	write(w, NewRuleSet(index))
}

func (h *handler) counters(w http.ResponseWriter, r *http.Request) {
	query := r.URL.Query()
	q := CounterQuery{
		Policy: query.Get("policy"), Identifier: query.Get("identifier"), Prefix: query.Get("prefix"),
		Over: query.Get("over") == "true", Continue: query.Get("continue"),
	}
	if text := query.Get("limit"); text != "" {
		var err error
		if q.Limit, err = strconv.Atoi(text); err != nil {
			q.Limit = -1 // List rejects it
		}
	}
	list, bad := h.Counters.List(r.Context(), q)
	if bad != nil {
		bad.Write(w)
		return
	}
	write(w, list)
}

func (h *handler) reset(w http.ResponseWriter, r *http.Request) {
	var request adminapi.ResetRequest
	if !readChange(w, r, &request) {
		return
	}
	result, bad := h.Counters.Reset(r.Context(), &request)
	if bad != nil {
		bad.Write(w)
		return
	}
	write(w, result)
}

// readChange reads the request for a change, and reports whether the caller can make it. Otherwise it has written the response.
func readChange(w http.ResponseWriter, r *http.Request, request any) bool {
	body, bad := readBody(r)
	if bad != nil {
		bad.Write(w)
		return false
	}
	decoder := json.NewDecoder(bytes.NewReader(body))
	decoder.DisallowUnknownFields() // a misspelled dryRun must not reset anything
	err := decoder.Decode(request)
	if _, more := decoder.Token(); err == nil && !errors.Is(more, io.EOF) {
		err = errors.New("it must end after the JSON value")
	}
	if err != nil {
		reply.NewProblem(http.StatusBadRequest, "body", "the body is invalid: "+err.Error()).Write(w)
		return false
	}
	if Caller(r.Context()) == "" {
		unauthorized(w, "the caller is not authenticated")
		return false
	}
	return true
}

func (h *handler) redis(w http.ResponseWriter, r *http.Request) {
	if h.Redis == nil {
		reply.NewProblem(http.StatusNotFound, "", "this limiter has no Redis: its counters are in its process").Write(w)
		return
	}
	write(w, h.Redis.Check(r.Context()))
}

// Level is the level of the log: DEBUG, INFO, WARN or ERROR.
type Level struct {
	Level slog.Level `json:"level"`
}

func (h *handler) level(w http.ResponseWriter, _ *http.Request) { write(w, Level{h.Level.Level()}) }

func (h *handler) setLevel(w http.ResponseWriter, r *http.Request) {
	body, bad := readBody(r)
	if bad != nil {
		bad.Write(w)
		return
	}
	var level Level
	if err := json.Unmarshal(body, &level); err != nil {
		reply.NewProblem(http.StatusBadRequest, "level", `the body must be {"level":"debug"}, with debug, info, warn or error`).Write(w)
		return
	}
	previous := h.Level.Level()
	h.Log.Warn("log level changed", "from", previous, "to", level.Level, "caller", Caller(r.Context())) // before the change, so that it is logged
	h.Level.Set(level.Level)
	write(w, level)
}

func profile(w http.ResponseWriter, r *http.Request) {
	switch name := r.PathValue("profile"); name {
	case "profile":
		pprof.Profile(w, r)
	case "trace":
		pprof.Trace(w, r)
	default:
		pprof.Handler(name).ServeHTTP(w, r)
	}
}

func readBody(r *http.Request) ([]byte, *reply.Problem) {
	body, err := io.ReadAll(http.MaxBytesReader(nil, r.Body, maxBody))
	if _, large := errors.AsType[*http.MaxBytesError](err); large {
		return nil, reply.NewProblem(http.StatusRequestEntityTooLarge, "body", fmt.Sprintf("the body is larger than %d bytes", maxBody))
	} else if err != nil {
		return nil, reply.NewProblem(http.StatusBadRequest, "body", "the body ended early")
	}
	return body, nil
}

func write(w http.ResponseWriter, v any) {
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(v) //nolint:errchkjson // plain data: it fails only if the caller has closed the connection
}
