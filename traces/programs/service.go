// A service of articles over HTTP, and the load on it over loopback, in one program: service ARTICLES REQUESTS.
// Articles are read with skew, with their neighbours as links; one request in twenty writes a new version, one in fifty
// searches. A cache keeps the pages that were rendered last.
package main

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"fmt"
	"html/template"
	"io"
	"log"
	"math/rand"
	"net"
	"net/http"
	"os"
	"strconv"
	"strings"
	"sync"
)

type article struct {
	Number  int      `json:"number"`
	Title   string   `json:"title"`
	Body    string   `json:"body"`
	Tags    []string `json:"tags"`
	Version int      `json:"version"`
}

type service struct {
	lock     sync.RWMutex
	articles map[int]*article
	byTag    map[string][]int
	pages    map[int][]byte
	order    []int // of pages, oldest first
}

const cached = 2000

var writers = sync.Pool{New: func() any { return gzip.NewWriter(io.Discard) }}

// answer sends a body that is compressed for this request.
func answer(w http.ResponseWriter, body []byte) {
	w.Header().Set("Content-Encoding", "gzip")
	out := writers.Get().(*gzip.Writer)
	out.Reset(w)
	out.Write(body)
	out.Close()
	writers.Put(out)
}

var page = template.Must(template.New("page").Parse(
	`<html><title>{{.A.Title}}</title><h1>{{.A.Title}} ({{.A.Version}})</h1><p>{{.A.Body}}</p>` +
		`<ul>{{range .Links}}<li><a href="/read?n={{.Number}}">{{.Title}}</a></li>{{end}}</ul></html>`))

var words = strings.Fields("amber basin cedar delta ember fjord grove heath inlet jetty knoll ledge marsh north ocean " +
	"plain quarry ridge shoal tidal upper vale wharf yield zenith")

func text(chance *rand.Rand, count int) string {
	var out strings.Builder
	for i := 0; i < count; i++ {
		out.WriteString(words[chance.Intn(len(words))])
		out.WriteString(strconv.Itoa(chance.Intn(100)))
		out.WriteByte(' ')
	}
	return out.String()
}

func (s *service) put(a *article) {
	s.lock.Lock()
	defer s.lock.Unlock()
	if old := s.articles[a.Number]; old != nil {
		a.Version = old.Version + 1
	} else {
		for _, tag := range a.Tags {
			s.byTag[tag] = append(s.byTag[tag], a.Number)
		}
	}
	s.articles[a.Number] = a
	delete(s.pages, a.Number)
}

func (s *service) read(w http.ResponseWriter, r *http.Request) {
	number, _ := strconv.Atoi(r.FormValue("n"))
	s.lock.RLock()
	body, a := s.pages[number], s.articles[number]
	var links []*article
	for near := number + 1; near < number+6; near++ {
		if other := s.articles[near]; other != nil {
			links = append(links, other)
		}
	}
	s.lock.RUnlock()
	if a == nil {
		http.NotFound(w, r)
		return
	}
	if body == nil {
		var out bytes.Buffer
		if err := page.Execute(&out, map[string]any{"A": a, "Links": links}); err != nil {
			http.Error(w, err.Error(), 500)
			return
		}
		body = out.Bytes()
		s.lock.Lock()
		s.pages[number] = body
		s.order = append(s.order, number)
		for len(s.order) > cached {
			delete(s.pages, s.order[0])
			s.order = s.order[1:]
		}
		s.lock.Unlock()
	}
	answer(w, body)
}

func (s *service) write(w http.ResponseWriter, r *http.Request) {
	a := new(article)
	if err := json.NewDecoder(r.Body).Decode(a); err != nil {
		http.Error(w, err.Error(), 400)
		return
	}
	s.put(a)
}

func (s *service) search(w http.ResponseWriter, r *http.Request) {
	s.lock.RLock()
	defer s.lock.RUnlock()
	var found []*article
	for _, number := range s.byTag[r.FormValue("tag")] {
		if a := s.articles[number]; strings.Contains(a.Body, r.FormValue("word")) && len(found) < 20 {
			found = append(found, a)
		}
	}
	body, err := json.Marshal(found)
	if err != nil {
		http.Error(w, err.Error(), 500)
		return
	}
	answer(w, body)
}

func load(address string, articles, requests int) error {
	client := &http.Client{Transport: &http.Transport{DisableCompression: true}}
	chance := rand.New(rand.NewSource(13))
	skew := rand.NewZipf(chance, 1.1, 50, uint64(articles-1))
	for i := 0; i < requests; i++ {
		number := int(skew.Uint64()*7919) % articles
		var got *http.Response
		var err error
		switch {
		case i%20 == 7:
			body, _ := json.Marshal(article{Number: number, Title: text(chance, 4), Body: text(chance, 250)})
			got, err = client.Post(address+"/write", "application/json", bytes.NewReader(body))
		case i%50 == 11:
			got, err = client.Get(address + "/search?tag=" + words[chance.Intn(len(words))] + "&word=" + text(chance, 1)[:6])
		default:
			got, err = client.Get(fmt.Sprintf("%s/read?n=%d", address, number))
		}
		if err != nil {
			return err
		}
		if _, err = io.Copy(io.Discard, got.Body); err != nil {
			return err
		}
		got.Body.Close()
	}
	return nil
}

func main() {
	articles, _ := strconv.Atoi(os.Args[1])
	requests, _ := strconv.Atoi(os.Args[2])
	s := &service{articles: map[int]*article{}, byTag: map[string][]int{}, pages: map[int][]byte{}}
	chance := rand.New(rand.NewSource(12))
	for n := 0; n < articles; n++ {
		tags := []string{words[chance.Intn(len(words))], words[chance.Intn(len(words))] + strconv.Itoa(n%40)}
		s.put(&article{Number: n, Title: text(chance, 4), Body: text(chance, 250), Tags: tags})
	}
	http.HandleFunc("/read", s.read)
	http.HandleFunc("/write", s.write)
	http.HandleFunc("/search", s.search)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		log.Fatal(err)
	}
	go http.Serve(listener, nil)
	if err := load("http://"+listener.Addr().String(), articles, requests); err != nil {
		log.Fatal(err)
	}
}
