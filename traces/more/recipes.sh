# How the recordings of this folder are made; part of ../make, which gives needs, record, sources, $here and a work folder.

# PostgreSQL in single-user mode, as its recording was made: its server did not run inside QEMU 7.2 (README). It refuses to run as root.
make_postgres() {
    PATH=$PATH:$(echo /usr/lib/postgresql/*/bin)
    needs initdb postgresql pgbench postgresql
    as=
    mkdir postgres
    if [ "$(id -u)" = 0 ]; then
        as="setpriv --reuid=nobody --regid=nogroup --clear-groups"
        chmod 711 .
        chown nobody postgres
    fi
    cd postgres
    (
        PGHOST=$PWD PGUSER=load
        export PGHOST PGUSER
        $as initdb -D data -A trust -N --no-locale -U load
        cat "$here/programs/postgres.conf" >>data/postgresql.conf
        $as pg_ctl -D data -w -l log -o "-k $PWD" start
        createdb load
        pgbench -i -q -s 8 load
        $as pg_ctl -D data -w -m fast stop
    ) >&2
    record more/postgres 60ms 140ns postgres --single -j -D data load <"$here/programs/postgres.sql" >answers
    cd ..
    as=
}

# The compiler itself, not the program of rustup that looks for it.
make_rustc() {
    needs rustc rustc cargo cargo
    cp -r "$(sources regex-syntax)" regex-syntax
    record more/rustc 60ms 370ns "$(rustc --print sysroot)/bin/rustc" --edition 2021 --crate-type lib \
        --crate-name regex_syntax -C opt-level=2 -C codegen-units=1 --cap-lints allow --cfg 'feature="std"' \
        --cfg 'feature="unicode"' regex-syntax/src/lib.rs
}

# Apache httpd, which can map its files and keep them mapped; what nginx reads from its files is not seen (README). It would give up
# root at its start, and with it the recorder's pipe, so that both begin without it.
make_web() {
    PATH=$PATH:/usr/sbin
    needs apache2 apache2-bin python3 python3
    as=
    mkdir web
    if [ "$(id -u)" = 0 ]; then
        as="setpriv --reuid=nobody --regid=nogroup --clear-groups"
        chmod 711 .
        chown nobody web
    fi
    cd web
    WEB_ROOT=$PWD WEB_PORT=7980
    export WEB_ROOT WEB_PORT
    $as /usr/bin/python3 "$here/programs/web-load.py" files
    $as cp "$here/programs/web.conf" conf/web.conf
    $as /usr/bin/python3 "$here/programs/web-load.py" load "$WEB_PORT" 1000 &
    record more/web 40ms 200ns apache2 -d "$PWD" -f conf/web.conf -X
    wait
    cd ..
    as=
}

make_zstd() {
    needs zstd zstd python3 python3
    python3 "$here/programs/mixed.py" 241172480 >mixed
    record more/zstd 80ms 110ns zstd -q -k --single-thread -9 --long=27 mixed -o out.zst
}

make_shell() {
    needs sh dash awk mawk
    cp "$here/programs/shell.sh" .
    record more/shell 20ms 120ns sh shell.sh 20
}

# Packs a repository anew: git maps the packs that it reads. The repository is made of the sources of crates that this workspace
# depends on, in commits of twenty.
make_git() {
    needs git git
    git init -q -b main history
    registry=$(dirname "$(sources zstd-sys)")
    ls "$registry" | grep -v '^windows' | xargs -n 20 | while read -r crates; do
        # shellcheck disable=SC2086 # several names
        (cd "$registry" && cp -r $crates "$OLDPWD/history/")
        git -C history add -A
        git -C history -c user.name=load -c user.email=load@example.invalid -c gc.auto=0 commit -q -m "$crates"
    done
    git -C history repack -q -a -d
    record more/git 20ms 150ns git -C history -c pack.threads=1 repack -a -d -f -q --depth=50 --window=30
}

make_perl() {
    needs perl perl
    cp "$here/programs/index.pl" .
    record more/perl 60ms 200ns perl index.pl
}
